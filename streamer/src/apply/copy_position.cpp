#include "apply/copy_position.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <stdexcept>

namespace millrace::apply {

std::string to_text(const CopyPosition& position) {
  return fmt::format("{}|{}", fmt::join(position.gaps, " "), position.source);
}

CopyPosition parse_position(std::string_view text) {
  CopyPosition position;
  if (text.empty()) return position;
  const std::size_t bar = text.find('|');
  const auto refuse = [&] {
    throw std::invalid_argument(fmt::format("'{}' is no position of a copy", text));
  };
  if (bar == std::string_view::npos) refuse();
  position.source = text.substr(bar + 1);
  for (std::string_view ranks = text.substr(0, bar); !ranks.empty();) {
    std::uint32_t rank = 0;
    const auto [end, error] = std::from_chars(ranks.data(), ranks.data() + ranks.size(), rank);
    if (error != std::errc{}) refuse();
    position.gaps.insert(rank);
    ranks.remove_prefix(static_cast<std::size_t>(end - ranks.data()));
    if (ranks.starts_with(' ')) ranks.remove_prefix(1);
  }
  return position;
}

}  // namespace millrace::apply
