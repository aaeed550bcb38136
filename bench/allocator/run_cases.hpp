#pragma once

#include <vector>

#include "allocator/cases/case.hpp"
#include "allocator/options.hpp"
#include "allocator/report/row.hpp"

namespace millrace::bench {

struct Results {
  std::vector<ResultRow> rows;
  std::vector<LeftOut> left_out;
  bool failed = false;  ///< a case threw what is no lack of time or room
};

/// Runs each case on each subject that it is for. Subjects of one case are interleaved at random by
/// Google Benchmark, so that what else the machine does falls on all of them.
[[nodiscard]] Results run_cases(const Cases& cases, const Options& options);

}  // namespace millrace::bench
