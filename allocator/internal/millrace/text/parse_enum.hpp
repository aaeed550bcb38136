#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::text {

/** @brief "a", "a or b", "a, b or c" */
[[nodiscard]] std::string alternatives(std::span<const std::string> names);

/** @throws std::invalid_argument "unknown KIND 'NAME' (expected a, b or c)" */
[[noreturn]] void refuse_name(std::string_view kind, std::string_view name,
                              const std::vector<std::string>& expected);

/** @brief The names that `to_string` gives the values. */
template <typename Values>
[[nodiscard]] std::vector<std::string> names_of(const Values& all) {
  std::vector<std::string> names;
  for (const auto value : all) names.emplace_back(to_string(value));
  return names;
}

/**
 * @brief The value of an enumeration that `to_string` calls `name`.
 * @param kind  what the enumeration's values are, for the message: "wait mode"
 * @param all   its values
 * @throws std::invalid_argument as `refuse_name`
 */
template <typename Values>
[[nodiscard]] auto parse_enum(std::string_view kind, std::string_view name, const Values& all) {
  for (const auto value : all) {
    if (to_string(value) == name) return value;
  }
  refuse_name(kind, name, names_of(all));
}

}  // namespace millrace::text
