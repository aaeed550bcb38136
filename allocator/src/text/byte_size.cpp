#include "millrace/memory/byte_size.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace millrace {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 10> kUnits{{
    {"", 1},
    {"b", 1},
    {"kb", 1e3},
    {"mb", 1e6},
    {"gb", 1e9},
    {"tb", 1e12},
    {"kib", 1024.0},
    {"mib", 1024.0 * 1024},
    {"gib", 1024.0 * 1024 * 1024},
    {"tib", 1024.0 * 1024 * 1024 * 1024},
}};

[[noreturn]] void refuse(std::string_view text) {
  throw std::invalid_argument{fmt::format(
      "'{}' is not a size; write bytes, or a number with a unit: 512MiB, 1GiB, 1.5GB", text)};
}

}  // namespace

std::size_t parse_bytes(std::string_view text) {
  double number = 0;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) refuse(text);

  std::string unit{rest, text.data() + text.size()};
  if (unit.starts_with(' ')) unit.erase(0, 1);
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  const auto* const known = std::find_if(kUnits.begin(), kUnits.end(),
                                         [&](const auto& entry) { return entry.first == unit; });
  if (known == kUnits.end()) refuse(text);

  const double bytes = std::round(number * known->second);
  if (bytes > std::ldexp(1.0, 62)) refuse(text);
  return static_cast<std::size_t>(bytes);
}

std::string format_bytes(std::size_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 6> names{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.995 && unit + 1 < names.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, names[unit]);
}

}  // namespace millrace
