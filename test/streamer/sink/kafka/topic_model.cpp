#include "test/streamer/sink/kafka/topic_model.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sink/kafka/topic/commits.hpp"
#include "sink/kafka/topic/keys.hpp"
#include "test/streamer/sink/batch_of_rows.hpp"

namespace millrace::test {
namespace {

std::string key_of_row(const RowRecord& row) {
  return sink::row_key(four_wide_schema().tables.at(row.table).name, row.row);
}

}  // namespace

void TopicModel::append(std::uint32_t part, std::uint32_t rank, std::string key,
                        std::vector<std::byte> record) {
  parts_[part].push_back({ends_[part]++, rank, std::move(key), std::move(record)});
}

void TopicModel::put_schema() {
  std::vector<std::byte> record;
  append_record(record, four_wide_schema(), Version{});
  for (std::uint32_t i = 0; i < parts(); ++i) append(i, 0, sink::schema_key(), record);
}

void TopicModel::put_rows(const StepBatch& batch, const std::function<bool(std::size_t)>& chosen) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (!chosen(i)) continue;
    const std::string key = key_of_row(batch.row(i));
    const auto part =
        static_cast<std::uint32_t>(sink::partition_of(key, static_cast<std::int32_t>(parts())));
    const auto record = batch.record(i);
    append(part, batch.commit.rank, key, {record.begin(), record.end()});
  }
}

// As KafkaSink does it: the commit in a partition counts only the rows of that partition.
void TopicModel::put_marks(const StepBatch& batch,
                           const std::function<bool(std::uint32_t)>& chosen) {
  std::vector<std::uint64_t> rows(parts());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    ++rows[static_cast<std::size_t>(
        sink::partition_of(key_of_row(batch.row(i)), static_cast<std::int32_t>(parts())))];
  }
  for (std::uint32_t i = 0; i < parts(); ++i) {
    if (!chosen(i)) continue;
    std::vector<std::byte> record;
    append_record(record, sink::of_part(batch.commit, static_cast<std::int32_t>(i),
                                        static_cast<std::int32_t>(parts()), rows[i]));
    append(i, batch.commit.rank, sink::commit_key(batch.commit.rank), std::move(record));
  }
}

void TopicModel::compact(std::uint32_t part, std::int64_t end) {
  std::map<std::string, std::int64_t> newest;
  for (const Message& message : parts_[part]) {
    if (message.offset < end) newest[message.key] = message.offset;
  }
  std::erase_if(parts_[part], [&](const Message& message) {
    return message.offset < end && newest[message.key] != message.offset;
  });
}

void TopicModel::drop(std::uint32_t part, std::int64_t begin) {
  std::erase_if(parts_[part], [&](const Message& message) { return message.offset < begin; });
}

void TopicModel::lose(std::uint32_t part, std::size_t index) {
  auto& messages = parts_[part];
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(index));
  for (std::size_t i = index; i < messages.size(); ++i) --messages[i].offset;
  --ends_[part];
}

void TopicModel::read(const Message& message, std::uint32_t part,
                      const std::function<void(const sink::TopicMessage&)>& visit) {
  std::vector<std::byte> moved(message.record.size() + 1);
  std::copy(message.record.begin(), message.record.end(), moved.begin() + 1);
  visit({.part = static_cast<std::int32_t>(part),
         .offset = message.offset,
         .rank = message.rank,
         .record = std::span{moved}.subspan(1)});
}

}  // namespace millrace::test
