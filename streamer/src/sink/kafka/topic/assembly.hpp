#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/streamer/sink.hpp"
#include "sink/kafka/topic/message.hpp"
#include "sink/kafka/topic/position.hpp"
#include "sink/kafka/topic/segment.hpp"

namespace millrace::sink {

/**
 * @brief Assembles whole batches from the messages of a topic's partitions.
 *
 * In each partition, the rows of a rank are followed by the rank's commit, which is in all
 * partitions. A batch is whole when its commit was read from all of them; rows of later commits
 * wait.
 *
 * A topic may be compacted: older messages of a row, and older commits of a rank, are removed, and
 * offsets have gaps. A batch then has holes, and commits are missing between two others. The rows
 * that fill the holes follow later. Until they were returned, commits count the holes as missing.
 *
 * Rows that are missing without a gap of offsets are permanently lost, and so are rows in whose
 * place is a foreign message. The batch reports them (RecordSource::Next::lost). Foreign messages,
 * and commits that are not in order, are skipped.
 */
class TopicAssembly {
 public:
  /** The current end offset of each partition. */
  using Ends = std::function<std::vector<std::int64_t>()>;

  /** @param start  where reading begins */
  TopicAssembly(const TopicPosition& start, std::string name, Ends ends);

  /** @throws SinkError (wrong) for another schema */
  void add(const TopicMessage& message);
  /** @brief Like `add` for the schema's record. */
  void take_schema(const StreamSchema& schema);
  /** @return the next whole batch, if one exists */
  [[nodiscard]] std::optional<RecordSource::Next> take();
  [[nodiscard]] bool has_next() const noexcept { return !ready_.empty(); }

  [[nodiscard]] const std::optional<StreamSchema>& schema() const noexcept { return schema_; }
  /** @return true if the topic was read from its beginning, and nothing was removed before it */
  [[nodiscard]] bool whole() const noexcept { return whole_; }
  /** @brief Returns the number of partitions that commits name. */
  [[nodiscard]] std::size_t parts() const noexcept { return parts_.size(); }
  /** @brief Like MessageReader::strange. */
  [[nodiscard]] const std::string& strange() const noexcept { return reader_.strange(); }

 private:
  struct Partition {
    std::int64_t next = 0;                               ///< next offset
    bool gap = false;                                    ///< a gap was found
    bool damaged = false;                                ///< a foreign message was found
    std::map<std::uint32_t, std::deque<Segment>> ranks;  ///< the last segment of each is open
  };

  Partition& partition_of(const TopicMessage& message);
  Segment& open_segment(Partition& part, std::uint32_t rank);
  void pass_over(Partition& part, std::int64_t offset);
  void add_commit(Partition& part, const StepCommit& commit, std::int64_t offset);
  void drop_ranks(Partition& part, const StepCommit& commit);
  [[nodiscard]] bool is_whole(const StepCommit& commit) const;
  void give_out(const StepCommit& commit);
  [[nodiscard]] std::vector<Segment> pop_up_to(Partition& part, const StepCommit& commit);
  [[nodiscard]] Version before_of(const Segment& segment) const;
  [[nodiscard]] Version after_of(const std::vector<std::vector<Segment>>& parts) const;
  void count_holes(std::uint64_t holes);
  [[nodiscard]] TopicPosition position();
  [[nodiscard]] std::vector<std::int64_t> resume_offsets() const;

  std::string name_;
  Ends ends_;
  bool whole_ = true;  ///< no message was removed before the place where reading began
  std::vector<Partition> parts_;
  std::map<std::uint32_t, Version> given_;
  std::uint64_t epoch_ = 0;
  std::uint64_t holes_ = 0;
  std::vector<std::int64_t> filled_;
  std::optional<StreamSchema> schema_;
  std::deque<RecordSource::Next> ready_;
  MessageReader reader_;
};

}  // namespace millrace::sink
