#include "cli/svg.hpp"

#include <fmt/format.h>

#include <cmath>

namespace millrace::cli {

std::string svg_head(double width, double height) {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}">
<style>text{{font:12px system-ui,sans-serif;fill:#222}}.t{{font-weight:600;font-size:14px}}.s{{fill:#555}}.g{{stroke:#ddd}}.m{{font-size:9px;fill:#fff;text-anchor:middle}}</style>
<rect width="{0}" height="{1}" fill="#fff"/>
)",
      width, height);
}

std::string svg_escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string svg_text(double x, double y, std::string_view text, std::string_view attributes) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, attributes,
                     svg_escaped(text));
}

double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  const double times = least / power;
  return power * (times > 5 ? 10 : times > 2 ? 5 : times > 1 ? 2 : 1);
}

}  // namespace millrace::cli
