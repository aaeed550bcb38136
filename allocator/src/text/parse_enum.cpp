#include "millrace/text/parse_enum.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

namespace millrace::text {

std::string alternatives(std::span<const std::string> names) {
  if (names.size() < 2) return names.empty() ? "" : names.front();
  return fmt::format("{} or {}", fmt::join(names.first(names.size() - 1), ", "), names.back());
}

void refuse_name(std::string_view kind, std::string_view name,
                 const std::vector<std::string>& expected) {
  throw std::invalid_argument{
      fmt::format("unknown {} '{}' (expected {})", kind, name, alternatives(expected))};
}

}  // namespace millrace::text
