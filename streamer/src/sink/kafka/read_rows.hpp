#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "millrace/streamer/record.hpp"
#include "sink/kafka/topic_message.hpp"

namespace millrace::sink {

/** @brief The newest version of each row among messages. */
class TopicRows {
 public:
  /** @brief What nobody of ours wrote is passed by. */
  void add(const TopicMessage& message);
  /** @throws RecordError for a row that the schema has not; what `visit` throws */
  void visit(const std::function<void(const RowRecord&)>& visit) const;

 private:
  struct Key {
    std::uint32_t table = 0;
    std::int64_t row = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept {
      return static_cast<std::size_t>(key.row) * 0x9E3779B97F4A7C15U ^ key.table * 0x85EBCA6BU;
    }
  };

  std::optional<StreamSchema> schema_;
  std::unordered_map<Key, std::vector<std::byte>, KeyHash> records_;
  std::vector<std::byte> record_;  ///< of the message, aligned
};

}  // namespace millrace::sink
