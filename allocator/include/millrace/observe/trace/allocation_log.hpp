#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/observe/packing.hpp"
#include "millrace/observe/trace/torch_layout.hpp"
#include "millrace/observe/trace/torch_snapshot.hpp"

namespace millrace::trace {

enum class TraceFormat : std::uint8_t {
  torch_snapshot,  ///< torch.cuda.memory._snapshot(), pickled or as JSON
  rmm_log,         ///< what RMM's logging adaptor writes
  lifetimes,       ///< id,lower,upper,size
};

[[nodiscard]] const char* to_string(TraceFormat format) noexcept;

enum class EventKind : std::uint8_t {
  allocate,
  free_requested,  ///< the program gives the block up, ordered on `stream`
  free_completed,  ///< the recorded allocator had seen all its uses complete; PyTorch only
  segment_alloc,   ///< the recorded allocator got memory from the driver; so are the next three
  segment_free,
  segment_map,
  segment_unmap,
  out_of_memory,  ///< a request of `bytes` that the recorded allocator could not serve
};

[[nodiscard]] const char* to_string(EventKind kind) noexcept;

/** @brief One stream of the recorded program. */
struct LoggedStream {
  std::uint32_t device = 0;
  std::uint64_t handle = 0;  ///< as recorded; the legacy default stream is 0
  std::uint64_t thread =
      0;  ///< whose per-thread default stream it is, if handle is 2 in an RMM log

  friend bool operator==(const LoggedStream&, const LoggedStream&) = default;
};

/** @brief One lifetime: an address that is allocated again is another block. */
struct LoggedBlock {
  /// As recorded, less TorchSnapshot::base; 0 if the log has no addresses.
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  ///< requested
  std::uint32_t device = 0;
  std::uint32_t stream = 0;    ///< that it was allocated on, an index into AllocationLog::streams
  bool live_at_start = false;  ///< was there before the first event; `stream` is then its segment's
  bool freed_before_start = false;  ///< live at start, freed by the program, not yet complete
  bool placed = true;               ///< lies in a segment that the log knows of
  TorchPool pool{0, 0};             ///< PyTorch only, as far as the log tells
  bool expandable = false;          ///< PyTorch only: lies in an expandable segment
};

struct LogEvent {
  static constexpr std::uint32_t kNoBlock = UINT32_MAX;

  EventKind kind = EventKind::allocate;
  std::uint32_t device = 0;
  std::uint32_t stream = 0;        ///< index into AllocationLog::streams
  std::uint32_t block = kNoBlock;  ///< index into AllocationLog::blocks, of the first three kinds
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;     ///< requested, or of the segment
  std::int64_t time_us = 0;    ///< for lifetimes, in the unit of the file
  std::uint64_t position = 0;  ///< line of the file, or index in the device's trace
};

/**
 * @brief What a program asked of its allocator, whichever it was.
 *
 * For every block there is at most one free_requested, after its allocate (or it is live at the
 * start), and at most one free_completed, after that. Blocks of one device that live at the same
 * time do not overlap. Events of one device are in their order; devices are interleaved by time.
 */
struct AllocationLog {
  std::string source;
  TraceFormat format = TraceFormat::lifetimes;
  std::vector<LoggedStream> streams;
  std::vector<LoggedBlock> blocks;
  std::vector<LogEvent> events;
  std::vector<std::string> warnings;  ///< what does not add up, a line each

  /// @name Only of a PyTorch snapshot
  /// @{
  std::optional<TorchSnapshot> snapshot;
  std::vector<TorchLayout> initial;  ///< by device: the layout before the first event
  /// @}

  [[nodiscard]] bool has_addresses() const noexcept { return format != TraceFormat::lifetimes; }
};

/**
 * @brief The lifetime of every block of a device, from allocate to free_requested, with the index
 * of events as time. Blocks that are live at the start begin at -1, and live until the end if they
 * are never freed. A block that the program freed before the log begins has an empty lifetime: it
 * is not requested any more, although its free may complete within the log. In the order of
 * `log.blocks`.
 */
[[nodiscard]] std::vector<Interval> lifetimes(const AllocationLog& log, std::uint32_t device = 0);

}  // namespace millrace::trace
