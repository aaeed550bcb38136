#include "sink/kafka/topic/message.hpp"

#include <fmt/format.h>

namespace millrace::sink {
namespace {

constexpr std::uint32_t kMostParts = 100'000;
constexpr std::uint64_t kMostRows = std::uint64_t{1} << 48;

void check_mark(const StepMark& mark, const TopicMessage& message) {
  if (mark.rank == message.rank && mark.part == static_cast<std::uint32_t>(message.part) &&
      mark.parts <= kMostParts && mark.rows <= kMostRows && mark.missing <= kMostRows) {
    return;
  }
  throw RecordError{fmt::format("a mark of rank {} and part {} of {}, of {} rows, from rank {}",
                                mark.rank, mark.part, mark.parts, mark.rows, message.rank)};
}

}  // namespace

std::optional<Record> MessageReader::read(const TopicMessage& message) {
  bytes_.assign(message.record.begin(), message.record.end());
  try {
    Record record = parse_record(bytes_);
    if (record.bytes != bytes_.size()) {
      throw RecordError{fmt::format("{} bytes with a record of {}", bytes_.size(), record.bytes)};
    }
    if (record.kind == RecordKind::mark) check_mark(record.mark, message);
    return record;
  } catch (const RecordError& error) {
    strange_ =
        fmt::format("offset {} of partition {}: {}", message.offset, message.part, error.what());
    return std::nullopt;
  }
}

}  // namespace millrace::sink
