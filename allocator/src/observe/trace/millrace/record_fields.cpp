#include "observe/trace/millrace/record_fields.hpp"

#include "millrace/observe/trace/parse_error.hpp"

namespace millrace::trace {

std::uint64_t RecordFields::number(std::uint64_t most, const char* what) {
  const auto value = take_varint(rest_);
  if (!value) fail(fmt::format("ends before {}", what));
  if (*value > most) fail(fmt::format("{} is {}, at most {} is possible", what, *value, most));
  return *value;
}

std::string RecordFields::text() {
  const std::uint64_t length = number(rest_.size(), "the length of a text");
  // The limit above includes the bytes of the length itself.
  if (length > rest_.size()) fail("ends in a text");
  std::string text{rest_.substr(0, length)};
  rest_.remove_prefix(length);
  return text;
}

void RecordFields::fail(const std::string& problem) const {
  throw ParseError{
      source_, where(),
      fmt::format("the record of kind {} {}", static_cast<int>(record_.kind), problem)};
}

void RecordFields::fail_name(const char* what, std::uint64_t index, std::size_t count) const {
  fail(fmt::format("names {} {}, and there are {}", what, index, count));
}

}  // namespace millrace::trace
