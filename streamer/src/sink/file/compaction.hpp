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
 * @brief Makes one segment of some that are closed, the first of a rank's: of each row the newest
 *        version only, in the batch in which it came; of the commits the last of a few batches in a
 *        row.
 *
 * Who reads it from any commit on has in the end what the others would have given: what came up to
 * there it has, and what was left out came again later. A commit counts rows that were left out
 * before it and come behind it as missing; the last commit has nothing of that.
 *
 * It is done in pieces, so that whoever writes meanwhile waits for none of it. It gets its name
 * when it is on the disk, and stands for the others from then on; only then are those taken away.
 * Killed at any instant, either they or it is there.
 */
class Compaction {
 public:
  struct Environment {
    std::filesystem::path folder;
    Disk& disk;
    std::size_t flush_bytes;  ///< are written between one fsync and the next
  };
  struct CompactedSegment {
    SegmentName name;
    std::uint64_t bytes = 0;
  };

  /** @param segments  at least one, of one rank. @param log  what they say it is called */
  Compaction(const Environment& place, std::vector<SegmentName> segments,
             const StreamSchema& schema, std::uint64_t log);
  ~Compaction();
  Compaction(const Compaction&) = delete;
  Compaction& operator=(const Compaction&) = delete;

  /** @brief Goes on for about so many bytes that are read. @return what was made, once it is
   *  @throws SinkError, RecordError: it is given up; all is as it was */
  [[nodiscard]] std::optional<CompactedSegment> go_on(std::size_t bytes);

 private:
  struct Kept {
    Version version;
    std::uint64_t offset = 0;  ///< behind it
    std::uint32_t segment = 0;
    bool told = false;  ///< the row has come, in this version or another
  };
  /** Batches that are being made one. */
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

  std::optional<SegmentReader> reader_;  ///< of `at_`
  std::uint32_t at_ = 0;
  std::uint64_t rows_ = 0;  ///< since the last commit
  std::unordered_map<RowKey, Kept, RowKeyHash> newest_;

  std::filesystem::path unfinished_;
  File file_;                     ///< open: all was looked at, and is gone through again
  std::vector<std::byte> batch_;  ///< what stays of its rows
  std::uint64_t batch_rows_ = 0;
  Batches batches_;
  NumberedPosition position_;
  std::uint64_t to_come_ = 0;  ///< rows that were left out, and are kept behind
  std::vector<std::byte> out_;
  std::uint64_t written_ = 0, flushed_ = 0;
};

/** @brief What a compaction that was given up has left. */
void remove_unfinished(Disk& disk, const std::filesystem::path& folder, std::uint32_t rank);
/** @brief Takes segments away that a compacted one stands for. What can not be stays: it is not
 * read.
 *  @throws SinkError if the folder can not be listed */
void remove_superseded(Disk& disk, const std::filesystem::path& folder, std::uint32_t rank);

}  // namespace millrace::sink
