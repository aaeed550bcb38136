#pragma once

#include <vector>

#include "allocator/cases/case.hpp"
#include "allocator/options.hpp"
#include "allocator/report/row.hpp"

namespace millrace::bench {

struct Results {
  std::vector<ResultRow> rows;
  std::vector<LeftOut> left_out;
  bool failed = false;  ///< a case failed for another reason than time or memory
};

/// Runs each case on each of its subjects. Google Benchmark interleaves the subjects of a case at
/// random, so that other load on the machine affects all of them.
[[nodiscard]] Results run_cases(const Cases& cases, const Options& options);

}  // namespace millrace::bench
