#include "sink/kafka/topic/message.hpp"

#include <fmt/format.h>

namespace millrace::sink {
namespace {

constexpr std::uint32_t kMostParts = 100'000;
constexpr std::uint64_t kMostRows = std::uint64_t{1} << 48;

void check_commit(const StepCommit& commit, const TopicMessage& message) {
  if (commit.rank == message.rank && commit.part == static_cast<std::uint32_t>(message.part) &&
      commit.parts <= kMostParts && commit.rows <= kMostRows && commit.missing <= kMostRows) {
    return;
  }
  throw RecordError{fmt::format("a commit of rank {} and part {} of {}, of {} rows, from rank {}",
                                commit.rank, commit.part, commit.parts, commit.rows, message.rank)};
}

}  // namespace

std::optional<Record> MessageReader::read(const TopicMessage& message) {
  bytes_.assign(message.record.begin(), message.record.end());
  try {
    Record record = parse_record(bytes_);
    if (record.bytes != bytes_.size()) {
      throw RecordError{fmt::format("{} bytes with a record of {}", bytes_.size(), record.bytes)};
    }
    if (record.kind == RecordKind::commit) check_commit(record.commit, message);
    return record;
  } catch (const RecordError& error) {
    strange_ =
        fmt::format("offset {} of partition {}: {}", message.offset, message.part, error.what());
    return std::nullopt;
  }
}

}  // namespace millrace::sink
