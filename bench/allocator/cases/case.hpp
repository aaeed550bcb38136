#pragma once

#include <functional>
#include <string>
#include <vector>

#include "allocator/measure/trial.hpp"

namespace millrace::bench {

/// A workload that runs on every subject.
struct Case {
  /// The subjects of the case.
  enum class For {
    all,
    threads,   ///< subjects that several threads may share
    millrace,  ///< the case measures a call that only Millrace has
  };

  std::string suite;
  std::string name;
  std::function<Measured(const SubjectRow&, const Setting&)> run;
  std::size_t live = 0;       ///< live blocks, streams or markers; see Scale::most_live
  const char* unit = "pair";  ///< unit of ns_per_pair
  For subjects = For::all;
  bool needs_idle_control = false;  ///< controls when work completes, which a GPU does not allow
  bool once = false;                ///< takes too long to repeat
  double limit_seconds = 0;         ///< replaces Scale::limit_ns in the default scale; 0: no change
};

/// The options of the program that decide which cases exist.
struct CaseOptions {
  std::string data;  ///< folder of the traces; "": none
  Scale scale;
};

/// A suite that could not be made, and the reason.
struct LeftOut {
  std::string suite, name, why;
};

struct Cases {
  std::vector<Case> all;
  std::vector<LeftOut> left_out;
};

/// All cases of all suites, in the order of docs/benchmarks.md.
[[nodiscard]] Cases make_cases(const CaseOptions& options);

// The suites, by source.
void add_loops(Cases& cases);
void add_random(Cases& cases);
void add_threads(Cases& cases);
void add_cold(Cases& cases);
void add_churn(Cases& cases);
void add_block_cliffs(Cases& cases);
void add_stream_cliffs(Cases& cases);
void add_marker_cliffs(Cases& cases);
void add_traces(Cases& cases, const CaseOptions& options);
void add_training(Cases& cases, const CaseOptions& options);

/// "1k", "100k", "1M".
[[nodiscard]] std::string short_number(std::size_t number);

}  // namespace millrace::bench
