#pragma once

#include <string>
#include <string_view>

#include "cli/page.hpp"

namespace millrace::cli {

/**
 * @brief The text with every line that is wider than the page broken between words; what follows is
 *        indented as its line is. Colors have no width. A word wider than the page stays whole.
 */
[[nodiscard]] std::string fitted(std::string_view text, std::size_t width = page_width());

}  // namespace millrace::cli
