#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "millrace/streamer/step_batch.hpp"
#include "sink/file/compaction.hpp"
#include "sink/file/segment.hpp"

namespace millrace::sink {

/** @brief What of closed segments is kept. */
enum class Keep {
  newest,  ///< of each row the newest version: they are compacted when they have twice as much
  all,
};

struct FileOptions {
  std::filesystem::path folder;
  std::size_t segment_bytes = std::size_t{64} << 20;  ///< a segment that has as many is followed
  Keep keep = Keep::all;
  Disk* disk = &Disk::system();
};

/**
 * @brief Appends to the segments of one rank, which nobody else does meanwhile: it holds a lock.
 *
 * Each time that a rank is opened a new segment begins, once the end of the last was made whole: so
 * what has been read of a segment stays where it was. A write that fails is cut off again. If a
 * segment can not be brought to the disk, it is cut to what is known to be there, and the newest
 * commit is that of then: what goes on behind a later one is lost, and a snapshot mends it.
 *
 * Closed segments are compacted, a piece with each write. If that fails it is tried again when
 * another is closed.
 */
class RankWriter {
 public:
  /** @throws SinkError: wrong if somebody else writes for the rank, or its segments are damaged */
  RankWriter(const FileOptions& options, const StreamSchema& schema, std::uint32_t rank);

  /** @brief The newest; none: the rank has told nothing. */
  [[nodiscard]] const std::optional<StepCommit>& commit() const noexcept { return now_.commit; }

  /** @brief The newest that it was given. */
  [[nodiscard]] const NumberedPosition& position() const noexcept { return now_.position; }

  /** @brief Whether what it appends to has its name still: somebody may empty the folder. */
  [[nodiscard]] bool is_there() const { return !file_ || is_at(file_, path_of(name_)); }

  /** @brief Names a segment that was taken away, though rows are told since it only in part; it is
   *         named once. Empty: all are there that have to be. */
  [[nodiscard]] std::string take_gone();

  /** @throws SinkError (retry): nothing of the batch is there */
  void write(const StepBatch& batch, const NumberedPosition& position);
  /** @throws SinkError (retry) */
  void flush();

 private:
  struct State {
    std::uint64_t end = 0;  ///< of the segment
    std::optional<StepCommit> commit;
    NumberedPosition position;
  };

  struct Closed {
    SegmentName name;
    std::uint64_t bytes = 0;
  };

  void take_over(const std::vector<SegmentName>& segments);
  void begin_segment(std::uint64_t epoch);
  void cut_off();
  void compact(std::size_t bytes);
  [[nodiscard]] bool worth_compacting() const;
  void begin_compaction();
  void adopt(const Compaction::CompactedSegment& made);
  void forget_unflushed(int error);
  [[nodiscard]] std::filesystem::path path_of(const SegmentName& name) const;

  FileOptions options_;
  StreamSchema schema_;
  File lock_;
  SegmentName name_;  ///< of the newest segment
  File file_;         ///< open: the newest, and appended to
  State now_, flushed_;
  std::uint64_t log_ = 0;  ///< what it is called; 0: it has no segment yet
  std::vector<Closed> closed_;
  std::uint64_t chain_ = 0;               ///< in which segment the newest chain begins; 0: unknown
  std::uint64_t needed_from_ = 0;         ///< what is in those before was told again since
  std::optional<Compaction> compaction_;  ///< of the first of those
  bool compact_ = true;                   ///< it has not failed since a segment was closed
  bool torn_ = false;                     ///< there may be something behind `now_.end`
  bool ended_ = false;                    ///< what is written next begins another segment
  bool folder_flushed_ = true;
};

}  // namespace millrace::sink
