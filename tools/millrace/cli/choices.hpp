#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cli/values.hpp"
#include "millrace/text/parse_enum.hpp"

/// @file
/// Options whose values are those of an enumeration, with the names of `to_string`.

namespace millrace::cli {

/** @brief Names for a help text, the default first: "ring (default), sync". */
[[nodiscard]] inline std::string choices_text(const std::vector<std::string>& names,
                                              const std::string& standard) {
  std::string text = standard + " (default)";
  for (const std::string& name : names) {
    if (name != standard) text += ", " + name;
  }
  return text;
}
/** @brief The same for an enumeration, with the names of `to_string`. */
template <typename Values>
[[nodiscard]] std::string choices_text(const Values& all, typename Values::value_type standard) {
  return choices_text(text::names_of(all), std::string{to_string(standard)});
}

/** @brief Reads one name. @throws UsageError for an unknown name */
template <typename Values>
[[nodiscard]] auto read_choice(std::string_view option, std::string_view kind,
                               std::string_view text, const Values& all) {
  const std::string name = read_name(option, kind, text, text::names_of(all));
  return *std::ranges::find_if(all, [&](const auto value) { return to_string(value) == name; });
}

/**
 * @brief Reads a list of names, or "all".
 * @return the values in the order of `all`
 * @throws UsageError for an unknown name
 */
template <typename Values>
[[nodiscard]] auto read_choices(std::string_view option, std::string_view kind,
                                const std::string& text, const Values& all) {
  const std::vector<std::string> chosen = read_names(option, kind, text, text::names_of(all));
  std::vector<typename Values::value_type> values;
  for (const auto value : all) {
    if (std::ranges::find(chosen, to_string(value)) != chosen.end()) {
      values.push_back(value);
    }
  }
  return values;
}

}  // namespace millrace::cli
