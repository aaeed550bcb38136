#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/streamer/sink.hpp"
#include "sink/kafka/topic/message.hpp"

namespace millrace::sink {

/** @brief The state of a topic: its schema, and the commits that all partitions have. */
class TopicCommits {
 public:
  /** @brief Adds a message. Skips rows and foreign messages. */
  void add(const TopicMessage& message);
  void add(const StepCommit& of_part, std::string_view position);
  void set_schema(const StreamSchema& schema) { schema_ = schema; }

  [[nodiscard]] const std::optional<StreamSchema>& schema() const noexcept { return schema_; }
  /** @brief Like MessageReader::strange. */
  [[nodiscard]] const std::string& strange() const noexcept { return reader_.strange(); }
  /**
   * @brief Returns the newest commit of each rank that all of its partitions have, or have replaced
   * by a newer one. It is as it was written: with one part.
   */
  [[nodiscard]] SinkState state() const;
  /** @brief Returns the greatest epoch of the rank's commits in any partition; 0: no commit. */
  [[nodiscard]] std::uint64_t newest_epoch(std::uint32_t rank) const;
  /** @brief Returns the greatest epoch of all ranks. */
  [[nodiscard]] std::uint64_t newest_epoch() const;

 private:
  std::optional<StreamSchema> schema_;
  std::string position_;
  MessageReader reader_;
  std::map<std::uint32_t, std::map<std::uint32_t, StepCommit>> newest_;  ///< by rank and partition
};

/** @brief Returns the commit as it is written to a partition that has `rows` of its rows. */
[[nodiscard]] StepCommit of_part(const StepCommit& commit, std::int32_t part, std::int32_t parts,
                                 std::uint64_t rows);

}  // namespace millrace::sink
