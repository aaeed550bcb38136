#pragma once

#include <string>
#include <string_view>

#include "cli/page.hpp"

namespace millrace::cli {

/**
 * @brief Breaks every line that is wider than the page between words.
 *
 * The continuation has the indent of its line. Escape sequences for colors have no width. A word
 * that is wider than the page stays whole.
 */
[[nodiscard]] std::string fitted(std::string_view text, std::size_t width = page_width());

}  // namespace millrace::cli
