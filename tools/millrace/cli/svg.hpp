#pragma once

#include <string>
#include <string_view>

namespace millrace::cli {

// Pictures: their head with styles (t a title, s faint, g a line of a grid, m in a mark), text.

[[nodiscard]] std::string svg_head(double width, double height);
[[nodiscard]] std::string svg_escaped(std::string_view text);
/** @param attributes  of the element, each with a space before it */
[[nodiscard]] std::string svg_text(double x, double y, std::string_view text,
                                   std::string_view attributes = "");

/** @brief 1, 2 or 5 times a power of ten, at least `least`: from one mark of an axis to the next.
 */
[[nodiscard]] double round_step(double least);

}  // namespace millrace::cli
