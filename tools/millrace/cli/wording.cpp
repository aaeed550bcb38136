#include "cli/wording.hpp"

#include <fmt/format.h>

#include <cmath>

#include "millrace/text/units.hpp"

namespace millrace::cli {
std::string gib(std::size_t bytes) { return fmt::format("{:.2f}", in_gib(bytes)); }

std::string mib(std::size_t bytes) { return fmt::format("{:.2f}", in_mib(bytes)); }

std::string gib_plain(double bytes) {
  const double value = std::round(bytes / kGiB * 100) / 100;
  return fmt::format("{}{:.2f}", value < 0 ? "−" : "", std::abs(value));
}

std::string gib_short(double bytes) {
  const double value = std::round(bytes / kGiB * 10) / 10;
  return fmt::format("{}{:.1f}", value < 0 ? "−" : "", std::abs(value));
}

std::string gib_change(double bytes) {
  const double value = std::round(bytes / kGiB * 100) / 100;
  return fmt::format("{}{:.2f}", value < 0 ? "−" : "+", std::abs(value));
}

std::string milliseconds(double nanoseconds) {
  return fmt::format("{:.2f}", in_milliseconds(nanoseconds));
}

std::string percent(double share) { return fmt::format("{:.0f}%", share * 100); }

std::string grouped(std::uint64_t number) {
  std::string text = fmt::format("{}", number);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace millrace::cli
