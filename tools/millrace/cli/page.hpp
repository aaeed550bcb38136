#pragma once

#include <cstddef>

namespace millrace::cli {

/**
 * @brief Maximum number of characters in a line that a command prints, from 40 to 119.
 *
 * The environment variable COLUMNS decides. Without it, the terminal's width is used; without a
 * terminal, 80.
 */
[[nodiscard]] std::size_t page_width();

}  // namespace millrace::cli
