#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>

namespace millrace::text {

/**
 * @brief Reads the number that the text begins with, and removes it from the text.
 * @return nothing, and the text is as before, if it begins with none or with one that does not fit
 */
template <typename Number>
[[nodiscard]] std::optional<Number> take_number(std::string_view& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/** @brief The number that the text is: no space, no '+', nothing after it. Nothing if it is none.
 */
template <typename Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
  const std::optional<Number> number = take_number<Number>(text);
  return text.empty() ? number : std::nullopt;
}

}  // namespace millrace::text
