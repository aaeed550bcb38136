#pragma once

#include <vector>

#include "footprint/rows.hpp"

namespace millrace::cli {

/** @brief Whether the checker found a race in any run. */
[[nodiscard]] bool raced(const std::vector<FootprintTable>& tables);

}  // namespace millrace::cli
