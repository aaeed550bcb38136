#include <fmt/format.h>

#include "allocator/cases/case.hpp"

#ifndef MILLRACE_BENCH_PIPELINE
#error "bench/allocator/CMakeLists.txt defines it as 0 or 1"
#endif

namespace millrace::bench {

Cases make_cases(const CaseOptions& options) {
  Cases cases;
  add_loops(cases);
  add_random(cases);
  add_threads(cases);
  add_cold(cases);
  add_churn(cases);
  add_traces(cases, options);
#if MILLRACE_BENCH_PIPELINE
  add_training(cases, options);
#else
  cases.left_out.push_back({"training", "", "this build has no pipelines"});
#endif
  add_block_cliffs(cases);
  add_stream_cliffs(cases);
  add_marker_cliffs(cases);
  return cases;
}

std::string short_number(std::size_t number) {
  if (number >= 1'000'000 && number % 1'000'000 == 0) return fmt::format("{}M", number / 1'000'000);
  if (number >= 1'000 && number % 1'000 == 0) return fmt::format("{}k", number / 1'000);
  return fmt::format("{}", number);
}

}  // namespace millrace::bench
