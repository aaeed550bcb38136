#include "cli/suggestions.hpp"

#include <fmt/format.h>

#include "millrace/text/nearest.hpp"

namespace millrace::cli {

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known,
                         const std::string& right) {
  const std::string guess = text::nearest(name, known);
  return guess.empty() ? right : fmt::format("{} (did you mean {}?)", right, guess);
}

}  // namespace millrace::cli
