#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/streamer/sink.hpp"
#include "sink/kafka/topic/message.hpp"

namespace millrace::sink {

/** @brief What a topic says of itself: its schema, and the marks that are in all partitions. */
class TopicMarks {
 public:
  /** @brief Rows are passed by, and so is what nobody of ours wrote. */
  void add(const TopicMessage& message);
  void add(const StepMark& of_part, std::string_view position);
  void set_schema(const StreamSchema& schema) { schema_ = schema; }

  [[nodiscard]] const std::optional<StreamSchema>& schema() const noexcept { return schema_; }
  /** @brief As MessageReader::strange. */
  [[nodiscard]] const std::string& strange() const noexcept { return reader_.strange(); }
  /**
   * @brief Of each rank the newest mark that all of its partitions have, or a newer one in its
   *        place. As it was told: of one part.
   */
  [[nodiscard]] SinkState state() const;
  /** @brief Of the rank's marks, in whichever partition; 0: there is none. */
  [[nodiscard]] std::uint64_t newest_epoch(std::uint32_t rank) const;
  /** @brief Likewise of all ranks. */
  [[nodiscard]] std::uint64_t newest_epoch() const;

 private:
  std::optional<StreamSchema> schema_;
  std::string position_;
  MessageReader reader_;
  std::map<std::uint32_t, std::map<std::uint32_t, StepMark>> newest_;  ///< of each rank and part
};

/** @brief A mark as it goes to a partition that has so many of the rows. */
[[nodiscard]] StepMark of_part(const StepMark& mark, std::int32_t part, std::int32_t parts,
                               std::uint64_t rows);

}  // namespace millrace::sink
