#pragma once

#include <string>
#include <string_view>

namespace millrace::cli {

// Helpers for SVG pictures. The head defines the styles t (title), s (secondary text), g (grid
// line) and m (text in a mark).

[[nodiscard]] std::string svg_head(double width, double height);
[[nodiscard]] std::string svg_escaped(std::string_view text);
/** @param attributes  further attributes of the element, each with a space before it */
[[nodiscard]] std::string svg_text(double x, double y, std::string_view text,
                                   std::string_view attributes = "");

/** @brief The distance between axis marks: 1, 2 or 5 times a power of ten, and at least `least`. */
[[nodiscard]] double round_step(double least);

}  // namespace millrace::cli
