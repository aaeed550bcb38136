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

/** @brief Which rows of closed segments are kept. */
enum class Keep {
  /** The newest version of each row: compacted once the other closed segments are as large. */
  newest,
  all,
};

struct FileOptions {
  std::filesystem::path folder;
  std::size_t segment_bytes = std::size_t{64} << 20;  ///< size at which the next segment begins
  Keep keep = Keep::all;
  Disk* disk = &Disk::system();
};

/**
 * @brief Appends to the segments of one rank. A file lock makes it the only writer.
 *
 * Opening a rank repairs the end of its last segment and begins a new one, so data that a reader
 * has seen never moves. A failed write is cut off again. If a segment cannot be flushed, it is cut
 * to the flushed part, and the newest commit is the last one of that part. A batch that continues a
 * later commit is then `lost`, and a snapshot follows.
 *
 * Closed segments are compacted, a piece with each write. A failed compaction is tried again when
 * the next segment is closed.
 */
class RankWriter {
 public:
  /** @throws SinkError: wrong if another process writes this rank, or its segments are damaged */
  RankWriter(const FileOptions& options, const StreamSchema& schema, std::uint32_t rank);

  /** @brief Returns the newest commit; none if the rank has written nothing. */
  [[nodiscard]] const std::optional<StepCommit>& commit() const noexcept { return now_.commit; }

  /** @brief Returns the newest position that was written. */
  [[nodiscard]] const NumberedPosition& position() const noexcept { return now_.position; }

  /** @return true if the open segment still has its name: the folder may have been emptied */
  [[nodiscard]] bool is_there() const { return !file_ || is_at(file_, path_of(name_)); }

  /** @return the name of a segment that was removed although some of its rows were not written
   *         since; each is named once. Empty: no needed segment is missing. */
  [[nodiscard]] std::string take_gone();

  /** @throws SinkError (retry): no part of the batch was written */
  void write(const StepBatch& batch, const NumberedPosition& position);
  /** @throws SinkError (retry) */
  void flush();

 private:
  struct State {
    std::uint64_t end = 0;  ///< end of the segment's whole batches
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
  SegmentName name_;  ///< name of the newest segment
  File file_;         ///< open: the newest segment, to which writes append
  State now_, flushed_;
  std::uint64_t log_ = 0;  ///< the log's name; 0: no segment yet
  std::vector<Closed> closed_;
  std::uint64_t chain_ = 0;               ///< segment in which the newest chain begins; 0: unknown
  std::uint64_t needed_from_ = 0;         ///< all rows of earlier segments were written again since
  std::optional<Compaction> compaction_;  ///< compaction of the first closed segments
  bool compact_ = true;                   ///< no compaction failed since a segment was closed
  bool torn_ = false;                     ///< bytes may follow `now_.end`
  bool ended_ = false;                    ///< the next write begins another segment
  bool folder_flushed_ = true;
};

}  // namespace millrace::sink
