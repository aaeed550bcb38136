#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <unordered_map>
#include <vector>

#include "record/row_key.hpp"
#include "sink/file/segment.hpp"

namespace millrace::sink {

/**
 * @brief Makes one segment from a rank's first closed segments. The new segment has the newest
 * version of each row, in the batch that wrote it. A few successive batches become one batch with
 * their last commit.
 *
 * A reader may begin at any commit and gets the same result as from the original segments: it has
 * all earlier rows, and a row that was left out is written again later. A commit counts as missing
 * the rows that were left out before it and follow after it; the last commit counts none.
 *
 * The work is done in pieces, so that a writer never waits for all of it. The new segment gets its
 * name when it is on the disk. From then on it replaces the old segments; only then are these
 * removed. If the process is killed at any instant, either the old segments or the new one are
 * complete.
 */
class Compaction {
 public:
  struct Environment {
    std::filesystem::path folder;
    Disk& disk;
    std::size_t flush_bytes;  ///< bytes that are written between one fsync and the next
  };
  struct CompactedSegment {
    SegmentName name;
    std::uint64_t bytes = 0;
  };

  /**
   * @param segments  at least one, all of one rank. @param log  name of the log in these segments
   */
  Compaction(const Environment& place, std::vector<SegmentName> segments,
             const StreamSchema& schema, std::uint64_t log);
  ~Compaction();
  Compaction(const Compaction&) = delete;
  Compaction& operator=(const Compaction&) = delete;

  /**
   * @brief Reads about `bytes` more. @return the new segment, once it is complete
   * @throws SinkError, RecordError: the compaction is given up; nothing has changed
   */
  [[nodiscard]] std::optional<CompactedSegment> go_on(std::size_t bytes);

 private:
  struct Kept {
    Version version;
    std::uint64_t offset = 0;  ///< offset after the record
    std::uint32_t segment = 0;
    bool written = false;  ///< the row was written already, in this version or another
  };
  /** Successive batches that become one. */
  struct Batches {
    std::optional<StepCommit> commit;
    std::size_t bytes = 0;
  };

  [[nodiscard]] bool read(std::size_t bytes);
  void take(const Record& record);
  void look_at(const RowRecord& row);
  void keep(const RowRecord& row);
  void end_batch(const StepCommit& commit);
  void write_commit(bool is_last);
  void write_out(std::size_t least);
  void begin_to_write();
  [[nodiscard]] CompactedSegment finish();

  Environment environment_;
  const std::vector<SegmentName> segments_;
  const StreamSchema schema_;
  const std::uint64_t log_;

  std::optional<SegmentReader> reader_;  ///< reader of segment `at_`
  std::uint32_t at_ = 0;
  std::uint64_t rows_ = 0;  ///< rows since the last commit
  std::unordered_map<RowKey, Kept, RowKeyHash> newest_;

  std::filesystem::path unfinished_;
  File file_;                     ///< open in the second pass, which writes
  std::vector<std::byte> batch_;  ///< the rows of the current batch that are kept
  std::uint64_t batch_rows_ = 0;
  Batches batches_;
  NumberedPosition position_;
  std::uint64_t to_come_ = 0;  ///< rows that were left out and follow later
  std::vector<std::byte> out_;
  std::uint64_t written_ = 0, flushed_ = 0;
};

/** @brief Removes the file of an unfinished compaction. */
void remove_unfinished(Disk& disk, const std::filesystem::path& folder, std::uint32_t rank);
/**
 * @brief Removes segments that a compacted one replaces. A segment that cannot be removed stays,
 * and is not read.
 * @throws SinkError if the folder cannot be listed
 */
void remove_superseded(Disk& disk, const std::filesystem::path& folder, std::uint32_t rank);

}  // namespace millrace::sink
