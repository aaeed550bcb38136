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
#include "sink/file/disk.hpp"

namespace millrace::sink {

/**
 * @brief A segment is a file to which one rank appended: the schema's record, then batches, each of
 *        rows, a position where there is one, and the commit. What is behind the last commit of a
 *        rank's last segment is torn: a write that did not end, or has not yet.
 *
 * The version of the schema's record is the epoch, and what the rank's log is called: a number that
 * was drawn when its first segment began, and all have. See Compaction for those that are
 * compacted.
 */
struct SegmentName {
  std::uint32_t rank = 0;
  std::uint64_t number = 0;  ///< from 1, upwards through all epochs of the rank
  std::uint64_t epoch = 0;   ///< of the commits in it; of the last of them
  bool compacted = false;    ///< stands for all of the rank's up to this number

  friend bool operator==(const SegmentName&, const SegmentName&) = default;
};
[[nodiscard]] std::string to_string(const SegmentName& name);
[[nodiscard]] std::optional<SegmentName> parse_segment_name(std::string_view name);

/** @brief Of each rank, in the order of their numbers. */
using Segments = std::map<std::uint32_t, std::vector<SegmentName>>;
/** @brief Those that nothing compacted stands for, as they were at one instant, though they be
 *         compacted meanwhile. A folder that is not there has none. @throws SinkError */
[[nodiscard]] Segments segments_in(const std::filesystem::path& folder);
/**
 * @brief Whether segments of a rank are missing in the middle, behind which no chain of commits
 *        begins: rows may be there in versions that are not their newest then.
 * @param segments  of the rank, in order
 * @return in words which; empty: none is
 * @throws SinkError, RecordError
 */
[[nodiscard]] std::string find_gap(const std::filesystem::path& folder,
                                   const std::vector<SegmentName>& segments);
/** @brief Those of a rank that something compacted stands for. @throws SinkError */
[[nodiscard]] std::vector<SegmentName> superseded_in(const std::filesystem::path& folder,
                                                     std::uint32_t rank);

/** @brief A segment is there no more: somebody has taken it away, or compacted it. */
class SegmentGone final : public SinkError {
 public:
  explicit SegmentGone(const std::string& what) : SinkError(Kind::lost, what) {}
};

/** @brief Reads records from a file that may grow meanwhile. */
class SegmentReader {
 public:
  /** @throws SegmentGone */
  explicit SegmentReader(std::filesystem::path path, std::uint64_t offset = 0);

  /**
   * @brief The next record, which is valid until the next call; nothing if none is there whole.
   * @throws RecordError that names file and offset, if it is none
   */
  [[nodiscard]] std::optional<Record> next();
  /** @brief Where `next` goes on. */
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  /** @brief The bytes of the record that `next` gave. */
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return record_; }
  void go_to(std::uint64_t offset) noexcept;

  /** @brief Whether a whole commit is anywhere behind this offset: what is before it was not torn.
   */
  [[nodiscard]] bool commit_behind(std::uint64_t offset) const;
  /** @brief Of the commit that ends there; nothing: none does. */
  [[nodiscard]] std::optional<Version> commit_before(std::uint64_t offset) const;
  /** @brief What the log is called; nothing: it does not say so yet. */
  [[nodiscard]] std::optional<std::uint64_t> log() const;
  /** @brief Whether it has its name still. */
  [[nodiscard]] bool is_there() const { return is_at(file_, path_); }
  [[nodiscard]] std::uint64_t size() const { return size_of(file_, path_); }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  [[nodiscard]] bool fill(std::size_t bytes);

  std::filesystem::path path_;
  File file_;
  std::uint64_t offset_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  ///< of what was read ahead, in the buffer
  std::span<const std::byte> record_;
};

/** @brief Where who applies has read to; the last of all ranks has the greatest number. */
struct NumberedPosition {
  std::uint64_t number = 0;  ///< 0: there is none
  std::string text;
};

/** @brief What a segment has up to its last commit. */
struct WholePart {
  std::uint64_t end = 0;  ///< behind the last commit; 0: there is none
  std::uint64_t size = 0;
  std::optional<StepCommit> commit;  ///< the last
  NumberedPosition position;         ///< likewise
};

/**
 * @brief Reads a segment, or what is behind an earlier part of it, to its end.
 * @param is_last  of its rank: its end may be torn
 * @throws RecordError that names file and offset: damage, and not a torn end
 */
void read_whole_part(const std::filesystem::path& path, bool is_last, WholePart& part);

}  // namespace millrace::sink
