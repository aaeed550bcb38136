#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/streamer/record.hpp"
#include "millrace/streamer/sink.hpp"
#include "sink/deadline.hpp"
#include "sink/file/disk.hpp"

namespace millrace::sink {

/**
 * @brief A segment is a file to which one rank appends: the schema's record, then batches. A batch
 * is rows, possibly a position, and the commit. Bytes after the last commit of a rank's last
 * segment are torn: a write failed, or is still in progress.
 *
 * The version of the schema's record has the epoch and the name of the rank's log: a random number
 * that is drawn for the first segment and repeated in all later ones. See Compaction for compacted
 * segments.
 */
struct SegmentName {
  std::uint32_t rank = 0;
  std::uint64_t number = 0;  ///< from 1; grows through all epochs of the rank
  std::uint64_t epoch = 0;   ///< epoch of its commits; if they differ, of the last one
  bool compacted = false;    ///< replaces all segments of the rank up to this number

  friend bool operator==(const SegmentName&, const SegmentName&) = default;
};
[[nodiscard]] std::string to_string(const SegmentName& name);
[[nodiscard]] std::optional<SegmentName> parse_segment_name(std::string_view name);

/** @brief The segments of each rank, in the order of their numbers. */
using Segments = std::map<std::uint32_t, std::vector<SegmentName>>;
/**
 * @brief Returns the segments that no compacted segment replaces, as of one instant, even if a
 * compaction runs at the same time. A folder that does not exist has none. @throws SinkError
 */
[[nodiscard]] Segments segments_in(const std::filesystem::path& folder);
/**
 * @brief Finds segments that are missing in the middle of a rank's segments, if no new chain of
 * commits begins after them: some rows may then be outdated.
 * @param segments  of the rank, in order
 * @param finish_by  after it, SinkError (retry) is thrown
 * @return description of the missing segments; empty if none is missing
 * @throws SinkError, RecordError
 */
[[nodiscard]] std::string find_gap(const std::filesystem::path& folder,
                                   const std::vector<SegmentName>& segments,
                                   const Deadline::Shared& finish_by);
/** @brief Returns the segments of a rank that a compacted one replaces. @throws SinkError */
[[nodiscard]] std::vector<SegmentName> superseded_in(const std::filesystem::path& folder,
                                                     std::uint32_t rank);

/** @brief A segment no longer exists: it was removed or compacted. */
class SegmentGone final : public SinkError {
 public:
  explicit SegmentGone(const std::string& what) : SinkError(Kind::lost, what) {}
};

/** @brief Reads records from a file that may grow at the same time. */
class SegmentReader {
 public:
  /**
   * @param finish_by  outlives this; after it, `next` throws SinkError (retry)
   * @throws SegmentGone
   */
  explicit SegmentReader(std::filesystem::path path, std::uint64_t offset = 0,
                         const Deadline::Shared& finish_by = kNeverEnds);

  /**
   * @return the next record, valid until the next call; nothing if no whole record follows
   * @throws RecordError that names file and offset, if the bytes are not a record
   */
  [[nodiscard]] std::optional<Record> next();
  /** @brief Returns the offset at which `next` continues. */
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  /** @brief Returns the bytes of the record that `next` returned. */
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return record_; }
  void go_to(std::uint64_t offset) noexcept;

  /** @return true if a whole commit follows anywhere after this offset: it is no torn end */
  [[nodiscard]] bool commit_behind(std::uint64_t offset) const;
  /** @return the version of the commit that ends at `offset`; nothing if none does */
  [[nodiscard]] std::optional<Version> commit_before(std::uint64_t offset) const;
  /** @return the log's name; nothing if it was not written yet */
  [[nodiscard]] std::optional<std::uint64_t> log() const;
  /** @return true if the file still has its name */
  [[nodiscard]] bool is_there() const { return is_at(file_, path_); }
  [[nodiscard]] std::uint64_t size() const { return size_of(file_, path_); }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  [[nodiscard]] bool fill(std::size_t bytes);

  std::filesystem::path path_;
  File file_;
  std::uint64_t offset_;
  const Deadline::Shared& finish_by_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  ///< bytes in the buffer that were read ahead
  std::span<const std::byte> record_;
};

/** @brief The applier's read position; the newest of all ranks has the greatest number. */
struct NumberedPosition {
  std::uint64_t number = 0;  ///< 0: no position
  std::string text;
};

/** @brief The contents of a segment up to its last commit. */
struct WholePart {
  std::uint64_t end = 0;  ///< offset after the last commit; 0: no commit
  std::uint64_t size = 0;
  std::optional<StepCommit> commit;  ///< the last commit
  NumberedPosition position;         ///< the last position
};

/**
 * @brief Reads a segment to its end, from its beginning or from an earlier end on.
 * @param is_last    the last segment of its rank: its end may be torn
 * @param finish_by  after it, SinkError (retry) is thrown
 * @throws RecordError that names file and offset: it is damaged, and this is not a torn end
 */
void read_whole_part(const std::filesystem::path& path, bool is_last, WholePart& part,
                     const Deadline::Shared& finish_by = kNeverEnds);

}  // namespace millrace::sink
