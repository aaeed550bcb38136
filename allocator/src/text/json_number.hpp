#pragma once

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

namespace millrace::text {

/** @brief Parses any number of JSON. Returns infinity, or 0, if a double cannot represent it. */
[[nodiscard]] inline double parse_real(std::string_view digits) {
  double value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc{}) return value;
  return std::strtod(std::string{digits}.c_str(), nullptr);  // HUGE_VAL or 0 if out of range
}

}  // namespace millrace::text
