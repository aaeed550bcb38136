#pragma once

#include <functional>
#include <string>
#include <vector>

#include "allocator/measure/trial.hpp"

namespace millrace::bench {

/// One workload that every subject does.
struct Case {
  /// Which subjects it is for.
  enum class For {
    all,
    threads,   ///< those that several threads may share
    millrace,  ///< what it measures is a call that only Millrace has
  };

  std::string suite;
  std::string name;
  std::function<Measured(const SubjectRow&, const Setting&)> run;
  std::size_t live = 0;       ///< blocks, streams or markers at once; see Scale::most_live
  const char* unit = "pair";  ///< what ns_per_pair counts
  For subjects = For::all;
  bool needs_idle_control = false;  ///< says itself when work is done: not on a GPU
  bool once = false;                ///< takes too long to be repeated
  double limit_seconds = 0;         ///< in place of Scale::limit_ns, in the default scale; 0: that
};

/// What the program was asked to run with, as far as it decides which cases there are.
struct CaseOptions {
  std::string data;  ///< folder of the traces; "" for none
  Scale scale;
};

/// A suite that could not be made, and why.
struct LeftOut {
  std::string suite, name, why;
};

struct Cases {
  std::vector<Case> all;
  std::vector<LeftOut> left_out;
};

/// Every case of every suite, in the order of docs/benchmarks.md.
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
