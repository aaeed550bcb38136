#include "cli/suggestions.hpp"

#include <fmt/format.h>

#include "millrace/text/nearest.hpp"

namespace millrace::cli {

namespace {

std::string with_guess(const std::string& guess, const std::string& right) {
  return guess.empty() ? right : fmt::format("{} (did you mean {}?)", right, guess);
}

}  // namespace

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known,
                         const std::string& right) {
  return with_guess(text::nearest(name, known), right);
}

std::string did_you_mean(std::string_view name, const std::map<std::string, std::string>& known,
                         const std::string& right) {
  std::vector<std::string> names;
  for (const auto& [each, meant] : known) names.push_back(each);
  const std::string near = text::nearest(name, names);
  return with_guess(near.empty() ? near : known.at(near), right);
}

}  // namespace millrace::cli
