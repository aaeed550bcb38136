#include "millrace/observe/trace/warnings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace millrace::trace {

void Warnings::add(std::string_view finding, std::string_view where) {
  const auto known = std::ranges::find(findings_, finding, &Finding::text);
  if (known == findings_.end())
    findings_.push_back({std::string{finding}, std::string{where}, 1});
  else
    ++known->cases;
}

std::vector<std::string> Warnings::lines() const {
  std::vector<std::string> lines;
  for (const auto& [text, first, cases] : findings_) {
    lines.push_back(cases == 1 ? fmt::format("{} ({})", text, first)
                               : fmt::format("{} ({} times, first {})", text, cases, first));
  }
  return lines;
}

}  // namespace millrace::trace
