#include "apply/copy_position.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "millrace/text/parse_number.hpp"

namespace millrace::apply {

namespace {

/** Removes a number and the character after it. @return false if the text begins otherwise */
template <typename Number>
bool take(std::string_view& text, Number& number, char behind) {
  const auto read = text::take_number<Number>(text);
  if (!read || !text.starts_with(behind)) return false;
  number = *read;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string to_text(const CopyPosition& position) {
  std::string gaps;
  for (const auto& [rank, answers] : position.gaps) gaps += fmt::format("{}:{} ", rank, answers);
  return gaps + "|" + position.source;
}

CopyPosition parse_position(std::string_view text) {
  CopyPosition position;
  if (text.empty()) return position;
  std::string_view rest = text;
  while (!rest.starts_with('|')) {
    std::uint32_t rank = 0;
    std::uint64_t answers = 0;
    if (!take(rest, rank, ':') || !take(rest, answers, ' ')) {
      throw std::invalid_argument(fmt::format("'{}' is not the position of a copy", text));
    }
    position.gaps[rank] = answers;
  }
  position.source = rest.substr(1);
  return position;
}

}  // namespace millrace::apply
