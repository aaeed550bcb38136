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
 * @brief Makes whole batches of what comes out of the partitions of a topic.
 *
 * Each partition has rows of each rank, and behind them the rank's commit, in all partitions alike.
 * A batch is whole when its commit has come from all; what is of later commits waits.
 *
 * A topic may be compacted: of a row, and of the commits of a rank, older messages go, and offsets
 * have gaps. Then a batch has holes, and commits are missing between two that are there. What
 * filled the holes stands further behind; until it has been given out, commits count the holes as
 * missing.
 *
 * What is missing where offsets have no gap is gone for good, and so is what stood where a message
 * is now that nobody of ours wrote: the batch says so (RecordSource::Next::lost). Such messages,
 * and commits that are not in order, are passed over.
 */
class TopicAssembly {
 public:
  /** Offsets behind what is in each partition now. */
  using Ends = std::function<std::vector<std::int64_t>()>;

  /** @param start  where reading begins */
  TopicAssembly(const TopicPosition& start, std::string name, Ends ends);

  /** @throws SinkError (wrong) for another schema */
  void add(const TopicMessage& message);
  /** @brief As `add` of its record. */
  void take_schema(const StreamSchema& schema);
  /** @brief The next whole batch, if there is one. */
  [[nodiscard]] std::optional<RecordSource::Next> take();
  [[nodiscard]] bool has_next() const noexcept { return !ready_.empty(); }

  [[nodiscard]] const std::optional<StreamSchema>& schema() const noexcept { return schema_; }
  /** @brief Whether the topic was there from its beginning on. */
  [[nodiscard]] bool whole() const noexcept { return whole_; }
  /** @brief Partitions that commits speak of. */
  [[nodiscard]] std::size_t parts() const noexcept { return parts_.size(); }
  /** @brief As MessageReader::strange. */
  [[nodiscard]] const std::string& strange() const noexcept { return reader_.strange(); }

 private:
  struct Partition {
    std::int64_t next = 0;                               ///< offset
    bool gap = false;                                    ///< there was one
    bool damaged = false;                                ///< one message was strange
    std::map<std::uint32_t, std::deque<Segment>> ranks;  ///< the last one of each is open
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
  bool whole_ = true;  ///< there was nothing before where reading began
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
