#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>

#include "record/row_key.hpp"
#include "sink/kafka/topic/message.hpp"

namespace millrace::sink {

/**
 * @brief Visits the newest version of each row among messages, which are read twice: the first
 *        reading finds the newest versions, the second visits them. Foreign messages are skipped.
 */
class TopicRows {
 public:
  void find(const TopicMessage& message);
  /**
   * @brief Call after `find` of all messages. Visits the first message of each row that is at least
   * as new as the newest one found, even if messages were added or compacted since. @throws what
   * `visit` throws
   */
  void visit(const TopicMessage& message, const std::function<void(const RowRecord&)>& visit);
  /** @brief Returns the number of rows that were found and not visited. */
  [[nodiscard]] std::size_t left() const noexcept { return newest_.size(); }

 private:
  [[nodiscard]] bool is_of_schema(const RowRecord& row) const;

  std::optional<StreamSchema> schema_;
  std::unordered_map<RowKey, Version, RowKeyHash> newest_;
  MessageReader reader_;
};

}  // namespace millrace::sink
