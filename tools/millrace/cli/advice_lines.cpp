#include "cli/advice_lines.hpp"

#include <fmt/format.h>

#include <cmath>

#include "cli/wording.hpp"

namespace millrace::cli {

std::string held_line(const std::string& name, const std::string& reserved,
                      const std::string& live) {
  return fmt::format("{} reserves {} to hold {} of live data.", name, reserved, live);
}

bool is_as_much(double saved, double of) {
  return saved == 0 || percent(std::abs(saved) / of) == percent(0);
}

std::string change_line(const RowChange& change) {
  if (is_as_much(change.saved, change.of)) {
    return fmt::format("{} reserves {}as much, {}.", change.name, change.saved == 0 ? "" : "about ",
                       change.cost);
  }
  return fmt::format("{} {} {} ({}), {}.", change.name, change.saved < 0 ? "takes" : "saves",
                     change.amount, percent(std::abs(change.saved) / change.of), change.cost);
}

std::string time_change(std::string_view what, double from, double to) {
  const double change = std::round((to / from - 1) * 1000) / 10;
  if (change == 0) return fmt::format("same {}", what);
  return fmt::format("{} {}{:.1f}%", what, change < 0 ? "−" : "+", std::abs(change));
}

std::string advice_line(std::string_view title, const std::string& text, bool is_good,
                        const Painter& paint) {
  return fmt::format("{}: {}\n", paint(title, Look::strong),
                     paint(text, is_good ? Look::good : Look::bad));
}

}  // namespace millrace::cli
