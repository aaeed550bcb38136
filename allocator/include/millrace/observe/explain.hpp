#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"

/// @file
/// Explains where the memory of a recorded program is at its peak, and why it could not be used.

namespace millrace {

/** @brief The parts of reserved memory. Every byte belongs to exactly one. */
enum class MemoryPart : std::uint8_t {
  live,      ///< requested by the program, and not freed
  rounding,  ///< in a live block: its size was rounded up
  rest,      ///< in a live block: an end of it, too small to be split off
  waiting,   ///< freed and used on other streams, where the uses are not known to be complete
  stream,    ///< free, on another stream than the asker's
  pool,      ///< free, in another pool than the asker's (CUDA graphs, MemPool)
  hard,      ///< free for the asker, but the segment has blocks in use
  soft,      ///< free for the asker, in a segment without blocks in use
  driver,    ///< not live, in the driver's pool, whose addresses are not in the log
};

inline constexpr std::size_t kMemoryParts = 9;

[[nodiscard]] const char* to_string(MemoryPart part) noexcept;  ///< "live", "rounding", ...

/** @brief How a site is identified. */
enum class SiteKind : std::uint8_t {
  program,  ///< by its stack, its label, or both
  size,     ///< by the size of the block, as the log has neither stack nor label
  unused,   ///< nothing was allocated there since the segment was acquired
  unknown,  ///< free since before the log begins
  driver,   ///< free in the driver's pool, whose addresses are not in the log
};

/** @brief A site: the blocks of one stack and label, or of one class of sizes. */
struct ExplainedSite {
  SiteKind kind = SiteKind::unknown;
  trace::StackTable::Id stack = trace::StackTable::kNone;
  trace::LabelTable::Id label = trace::LabelTable::kNone;
  std::uint64_t size_class = 0;  ///< the largest size of the class, a power of two
  std::string name{};            ///< in words: "forward (model.py:12)", "blocks of 1 to 2 MiB"
  std::string origin{};          ///< the name without its line; two logs are compared by it
};

/**
 * @brief A part of the reserved memory: bytes of one kind, on one stream, by one site.
 *
 * The site of `hard` bytes is the site of the block that is freed last in their segment, because
 * the segment is in use until then. The site of other free bytes is the site of their last user.
 */
struct MemoryShare {
  static constexpr std::uint32_t kNoStream = UINT32_MAX;

  MemoryPart part = MemoryPart::live;
  /// Index into Explanation::streams: the stream that owns the memory. If the allocator passes free
  /// memory between streams, it is the stream of the block or of the last user. kNoStream:
  /// `driver`.
  std::uint32_t stream = 0;
  trace::TorchPool pool{0, 0};
  std::uint32_t site = 0;    ///< index into Explanation::sites
  bool whole = false;        ///< free, in a segment (if expandable: a page) without blocks
  std::uint64_t blocks = 0;  ///< number of blocks, or of free ranges
  std::uint64_t bytes = 0;
  /// @name Events of the log, as indices; std::nullopt: before the log begins
  /// Live bytes: when they were allocated. Waiting and free bytes: when they were freed.
  /// @{
  std::optional<std::size_t> first;
  std::optional<std::size_t> last;
  /// @}
  /// Only for live, waiting and hard bytes: the event after which the asker can use all of them.
  /// By then live bytes are freed, waiting bytes are complete, and the segment of hard bytes is
  /// empty. std::nullopt: not within the log.
  std::optional<std::size_t> until;
};

/** @brief The request that needs memory. `stream` and `pool` decide which memory it may use. */
struct MemoryAsker {
  std::uint32_t stream = 0;  ///< index into Explanation::streams
  trace::TorchPool pool{0, 0};
  bool requests = false;    ///< false: no request; the stream with the most live bytes
  std::uint64_t bytes = 0;  ///< requested
  trace::StackTable::Id stack = trace::StackTable::kNone;
};

/** @brief The memory of one device after one event. */
struct MemoryMoment {
  std::optional<std::size_t> event;  ///< index into the log's events; std::nullopt: the beginning
  MemoryAsker asker;
  /// Bytes in segments; std::nullopt if the log does not have its allocator's segments. Then only
  /// live bytes are known, and `shares` has only these.
  std::optional<std::uint64_t> reserved;
  /// These add up to `reserved`, to the byte. By decreasing bytes.
  std::vector<MemoryShare> shares;
  /// Part of `reserved`: bytes of the driver's pool, whose addresses are not in the log. Blocks
  /// outside of all segments are assumed to be in this memory until it is full.
  std::uint64_t unplaced = 0;
  /// Whether the log has the sizes of blocks. Otherwise `rounding` and `rest` are not known, and
  /// count as free.
  bool knows_rounding = true;
  std::uint64_t elsewhere = 0;  ///< live bytes of blocks outside of all segments of the log

  [[nodiscard]] std::uint64_t bytes(MemoryPart part) const;
  /** @return true if the log shows the bytes of this part */
  [[nodiscard]] bool knows(MemoryPart part) const noexcept;
};

/** @brief A free range of addresses. */
struct FreeRange {
  std::uint64_t bytes = 0;
  std::uint32_t stream = 0;
  trace::TorchPool pool{0, 0};
  std::optional<std::size_t> freed;  ///< its last free; std::nullopt: before the log begins
};

/** @brief Why a request failed, as far as the log shows it. */
enum class FailureReason : std::uint8_t {
  beyond_device,  ///< larger than all memory that this process could have
  live,           ///< with the live bytes, larger than all memory that this process could have
  unused,         ///< the asker's own free memory had a range that is large enough
  waiting,        ///< a freed block whose uses are not complete is large enough
  stream,         ///< a free range of another stream is large enough
  pool,           ///< a free range of another pool is large enough
  hard,           ///< the asker had enough free bytes, but no range that is large enough
  scattered,      ///< all streams and pools together had enough free bytes
  unknown,        ///< the log does not show the reserved or the device's free bytes
  outside,        ///< all free bytes are not enough: other users of the device hold the rest
};

[[nodiscard]] const char* to_string(FailureReason reason) noexcept;

/** @brief A request that the recorded allocator could not serve. */
struct FailedRequest {
  std::size_t event = 0;  ///< index into the log's events
  std::uint64_t bytes = 0;
  /// Free bytes of the device, as recorded. If only the size of the device is known: that size
  /// minus the reserved bytes, or minus the live bytes. Other programs and allocators may have had
  /// a part of it.
  std::optional<std::uint64_t> device_free{};
  bool device_is_whole = false;  ///< `device_free` is derived from the size of the device
  FailureReason reason = FailureReason::unknown;
  std::optional<FreeRange> own{};      ///< largest range that the asker may use
  std::optional<FreeRange> other{};    ///< largest range of another stream, in the asker's pool
  std::optional<FreeRange> pool{};     ///< largest range of another pool
  std::optional<FreeRange> waiting{};  ///< largest freed block whose uses are not complete
  /// Size of a request that certainly would have fitted; std::nullopt if it is not known.
  std::optional<std::uint64_t> would_fit{};
  MemoryMoment memory{};  ///< at the failure
};

/** @brief One device of a log. */
struct DeviceExplanation {
  std::uint32_t device = 0;
  /// The peak of reserved bytes, after the request that made them grow to it. If they never grew,
  /// the moment with the most live bytes at that size. If reserved bytes are not known, the moment
  /// with the most live bytes of the whole log.
  MemoryMoment peak{};
  std::uint64_t most_live = 0;             ///< peak of live bytes over the log, at any moment
  bool shares_streams = false;             ///< streams got free memory of other streams' segments
  std::size_t failures = 0;                ///< requests that failed
  std::optional<FailedRequest> failure{};  ///< the last one
};

/** @brief Memory of one log, explained. */
struct Explanation {
  std::vector<trace::LoggedStream> streams;  ///< streams of the log, then those of segments only
  std::vector<ExplainedSite> sites;
  std::vector<DeviceExplanation> devices;  ///< those with blocks, segments or events
  std::vector<std::uint64_t> held;  ///< by block of the log: bytes in its segment; 0 if unknown
  /// By block of the log: the event from which its stream may use the memory again. std::nullopt:
  /// not within the log.
  std::vector<std::optional<std::size_t>> completed;
};

/**
 * @brief Explains the memory of every device of a log at its peak, and its last failed request.
 *
 * Takes O(n log n) for n events. Contradictions in a log change figures, never their sum.
 */
[[nodiscard]] Explanation explain(const trace::AllocationLog& log);

/** @brief The sites that allocated the blocks of a log. */
struct BlockSites {
  std::vector<ExplainedSite> sites;
  std::vector<std::uint32_t> by_block;  ///< by block of the log: index into `sites`
};

/** @brief The sites of all blocks, with the names that an explanation has. */
[[nodiscard]] BlockSites sites_of_blocks(const trace::AllocationLog& log);

}  // namespace millrace
