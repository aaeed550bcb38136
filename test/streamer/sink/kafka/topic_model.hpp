#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/streamer/sink.hpp"
#include "sink/kafka/topic/message.hpp"

namespace millrace::test {

/// A topic in memory, with the messages that a KafkaSink writes and that compaction keeps.
class TopicModel {
 public:
  struct Message {
    std::int64_t offset = 0;
    std::uint32_t rank = 0;
    std::string key;
    std::vector<std::byte> record;
  };

  explicit TopicModel(std::uint32_t parts) : parts_(parts), ends_(parts) {}

  void put_schema();
  /// Writes the rows for which `chosen` returns true, each to its partition.
  void put_rows(const StepBatch& batch, const std::function<bool(std::size_t)>& chosen);
  void put_rows(const StepBatch& batch) {
    put_rows(batch, [](std::size_t) { return true; });
  }
  /// Writes the commit to the partitions for which `chosen` returns true.
  void put_marks(const StepBatch& batch, const std::function<bool(std::uint32_t)>& chosen);
  void put_marks(const StepBatch& batch) {
    put_marks(batch, [](std::uint32_t) { return true; });
  }
  void put(const StepBatch& batch) {
    put_rows(batch);
    put_marks(batch);
  }

  /// Keeps only the newest message of each key, among the messages before `end`.
  void compact(std::uint32_t part, std::int64_t end);
  /// Removes the messages before `begin`.
  void drop(std::uint32_t part, std::int64_t begin);
  /// Removes one message and closes the gap in the offsets.
  void lose(std::uint32_t part, std::size_t index);
  /// Replaces the record of one message.
  void replace(std::uint32_t part, std::size_t index, std::vector<std::byte> record) {
    parts_[part][index].record = std::move(record);
  }

  [[nodiscard]] std::uint32_t parts() const { return static_cast<std::uint32_t>(parts_.size()); }
  [[nodiscard]] const std::vector<Message>& part(std::uint32_t number) const {
    return parts_[number];
  }
  [[nodiscard]] const std::vector<std::int64_t>& ends() const { return ends_; }

  /// Visits a message as a source reads it. The record is at an odd address.
  static void read(const Message& message, std::uint32_t part,
                   const std::function<void(const sink::TopicMessage&)>& visit);

 private:
  void append(std::uint32_t part, std::uint32_t rank, std::string key,
              std::vector<std::byte> record);

  std::vector<std::vector<Message>> parts_;
  std::vector<std::int64_t> ends_;
};

}  // namespace millrace::test
