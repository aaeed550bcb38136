#pragma once

#include <cstddef>

namespace millrace::cli {

/**
 * @brief Characters in a line of what commands print, at most: as COLUMNS in the environment says,
 * or as the terminal that standard output is; 119 where neither is known. From 40 to 119.
 */
[[nodiscard]] std::size_t page_width();

}  // namespace millrace::cli
