#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/streamer/sink.hpp"
#include "sink/kafka/topic/message.hpp"

namespace millrace::sink {

/** @brief What a topic says of itself: its schema, and the commits that are in all partitions. */
class TopicCommits {
 public:
  /** @brief Rows are passed by, and so is what nobody of ours wrote. */
  void add(const TopicMessage& message);
  void add(const StepCommit& of_part, std::string_view position);
  void set_schema(const StreamSchema& schema) { schema_ = schema; }

  [[nodiscard]] const std::optional<StreamSchema>& schema() const noexcept { return schema_; }
  /** @brief As MessageReader::strange. */
  [[nodiscard]] const std::string& strange() const noexcept { return reader_.strange(); }
  /**
   * @brief Of each rank the newest commit that all of its partitions have, or a newer one in its
   *        place. As it was told: of one part.
   */
  [[nodiscard]] SinkState state() const;
  /** @brief Of the rank's commits, in whichever partition; 0: there is none. */
  [[nodiscard]] std::uint64_t newest_epoch(std::uint32_t rank) const;
  /** @brief Likewise of all ranks. */
  [[nodiscard]] std::uint64_t newest_epoch() const;

 private:
  std::optional<StreamSchema> schema_;
  std::string position_;
  MessageReader reader_;
  std::map<std::uint32_t, std::map<std::uint32_t, StepCommit>> newest_;  ///< of each rank and part
};

/** @brief A commit as it goes to a partition that has so many of the rows. */
[[nodiscard]] StepCommit of_part(const StepCommit& commit, std::int32_t part, std::int32_t parts,
                                 std::uint64_t rows);

}  // namespace millrace::sink
