#pragma once

#include <cstddef>

namespace millrace::cli {

/**
 * @brief The most characters in a line that a command prints, from 40 to 119.
 *
 * The environment's COLUMNS decides; without it, the width of the terminal; without a terminal, it
 * is 80.
 */
[[nodiscard]] std::size_t page_width();

}  // namespace millrace::cli
