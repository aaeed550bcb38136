#pragma once

#include <string>
#include <string_view>

#include "cli/page.hpp"

namespace millrace::cli {

/**
 * @brief Breaks each line that is wider than the page. Lines break between words.
 *
 * The new line has the indentation of the original line. Escape sequences for colors have no width.
 * A word that is wider than the page is not broken.
 */
[[nodiscard]] std::string fitted(std::string_view text, std::size_t width = page_width());

}  // namespace millrace::cli
