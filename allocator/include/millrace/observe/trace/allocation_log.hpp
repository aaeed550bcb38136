#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/observe/packing.hpp"
#include "millrace/observe/trace/stacks.hpp"
#include "millrace/observe/trace/torch_layout.hpp"
#include "millrace/observe/trace/torch_snapshot.hpp"

namespace millrace::trace {

/** @brief The formats of allocation traces. */
enum class TraceFormat : std::uint8_t {
  torch_snapshot,  ///< torch.cuda.memory._snapshot(), pickled or as JSON
  rmm_log,         ///< the CSV of RMM's logging adaptor
  lifetimes,       ///< id,lower,upper,size
  millrace,        ///< Millrace's own format: docs/record.md
};

[[nodiscard]] const char* to_string(TraceFormat format) noexcept;
/** @brief Whether a trace of this format has the order of streams: records, waits, uses. */
[[nodiscard]] bool knows_order(TraceFormat format) noexcept;
/** @brief Whether LogEvent::position is a line of the file; otherwise it is an event's number. */
[[nodiscard]] bool has_lines(TraceFormat format) noexcept;
/** @brief Whether a trace of this format has the addresses of blocks. */
[[nodiscard]] bool has_addresses(TraceFormat format) noexcept;
/** @brief Whether LogEvent::time_us is in microseconds; otherwise it has the file's own unit. */
[[nodiscard]] bool has_clock(TraceFormat format) noexcept;

/** @brief The kinds of events in a log. */
enum class EventKind : std::uint8_t {
  allocate,
  free_requested,  ///< the program frees the block, ordered on `stream`
  free_completed,  ///< the recorded allocator saw all its uses complete; PyTorch only
  segment_alloc,   ///< the recorded allocator got memory from the driver
  segment_free,    ///< it returned memory to the driver
  segment_map,     ///< it mapped memory
  segment_unmap,   ///< it unmapped memory
  out_of_memory,   ///< a request of `bytes` that the recorded allocator could not serve
};

[[nodiscard]] const char* to_string(EventKind kind) noexcept;

/** @brief One stream of the recorded program. */
struct LoggedStream {
  std::uint32_t device = 0;
  std::uint64_t handle = 0;  ///< as recorded; 0 is the legacy default stream
  /// If `handle` is 2 in an RMM log: the thread whose per-thread default stream it is.
  std::uint64_t thread = 0;
  /// @name Only in Millrace's format
  /// @{
  std::string name;       ///< in words; may be empty
  bool legacy = false;    ///< the legacy default stream
  bool blocking = false;  ///< synchronizes with the legacy stream
  bool for_all = false;   ///< no stream: its memory may be used on all streams at once (cudaMalloc)
  /// @}

  friend bool operator==(const LoggedStream&, const LoggedStream&) = default;
};

/** @brief One allocation and its life; each allocation of an address is a separate block. */
struct LoggedBlock {
  /// The recorded address minus TorchSnapshot::base; 0 if the log has no addresses.
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  ///< requested
  /// Bytes that it takes in its segment, at least `bytes`; 0 if unknown.
  std::uint64_t held = 0;
  std::uint32_t device = 0;
  std::uint32_t stream = 0;         ///< its stream: an index into AllocationLog::streams
  bool live_at_start = false;       ///< allocated before the first event; `stream` is its segment's
  bool freed_before_start = false;  ///< live at start, although freed: its free was not complete
  bool placed = true;               ///< whether it is in a segment of the log
  TorchPool pool{0, 0};             ///< PyTorch only; default pool if unknown
  bool expandable = false;          ///< PyTorch only: whether it is in an expandable segment
  StackTable::Id stack = StackTable::kNone;  ///< where the program allocated it
  LabelTable::Id label = LabelTable::kNone;  ///< the program's own text about it
};

/** @brief One event of a log. */
struct LogEvent {
  static constexpr std::uint32_t kNoBlock = UINT32_MAX;

  EventKind kind = EventKind::allocate;
  std::uint32_t device = 0;
  std::uint32_t stream = 0;        ///< index into AllocationLog::streams
  std::uint32_t block = kNoBlock;  ///< index into AllocationLog::blocks; only first three kinds
  std::uint64_t address = 0;       ///< of a segment: see `has_place`
  std::uint64_t bytes = 0;         ///< requested bytes, or size of the segment
  std::int64_t time_us = 0;        ///< in the file's own unit unless `has_clock`
  /// Line of a CSV file; index in the device's trace of a snapshot; index in `events` for
  /// Millrace's format, whose files have no lines.
  std::uint64_t position = 0;
  StackTable::Id stack = StackTable::kNone;  ///< where the program made the call
};

/** @brief The steps that order a program's streams, or prove their progress. */
enum class OrderKind : std::uint8_t {
  marked,             ///< an event was recorded on `stream`: its marker `marker`
  waited,             ///< `stream` waits for marker `marker` of stream `other`
  used,               ///< `stream` uses `block` from here on, until the block is freed
  passed,             ///< marker `marker` of `stream` is known to be complete
  passed_stream,      ///< all work so far of `stream` is known to be complete
  passed_device,      ///< all work so far of the device is known to be complete
  closed,             ///< `stream` was destroyed
  transferred,        ///< `stream` owns `block` from here on; only in changed programs
  not_passed,         ///< a query found marker `marker` of `stream` not complete
  stream_not_passed,  ///< a query found that not all work so far of `stream` is complete
  pool_keeps,    ///< the device's pool keeps `bytes` at a synchronization: its release threshold
  pool_trimmed,  ///< the pool released its free memory above `bytes`
};

[[nodiscard]] const char* to_string(OrderKind kind) noexcept;

/** @brief One step of the order of a program's streams. Only in Millrace's format. */
struct LoggedOrder {
  OrderKind kind = OrderKind::marked;
  std::uint32_t device = 0;
  std::uint32_t stream = 0;  ///< index into AllocationLog::streams
  std::uint32_t other = 0;   ///< index into AllocationLog::streams
  std::uint32_t block = LogEvent::kNoBlock;
  std::uint64_t marker = 0;  ///< numbers of one stream ascend, with gaps
  std::uint64_t bytes = 0;   ///< only for a pool
  bool queried = false;      ///< only for `passed` and `passed_stream`: a query proved it
  std::uint64_t before = 0;  ///< the event that comes next: an index into AllocationLog::events
  std::int64_t time_us = 0;

  friend bool operator==(const LoggedOrder&, const LoggedOrder&) = default;
};

/**
 * @brief The requests that a program made to its allocator, in a form independent of the format.
 *
 * Each block has at most one free_requested, after its allocate (unless it is live at the start),
 * and at most one free_completed after that. Blocks of one device that live at the same time do not
 * overlap. Events of one device are in their original order; devices are interleaved by time.
 */
struct AllocationLog {
  std::string source;
  TraceFormat format = TraceFormat::lifetimes;
  std::vector<LoggedStream> streams;
  std::vector<LoggedBlock> blocks;
  std::vector<LogEvent> events;
  std::vector<LoggedOrder> order;     ///< in order; empty if the format does not have it
  std::vector<std::string> warnings;  ///< contradictions in the trace, one line each
  StackTable stacks;                  ///< of `blocks` and `events`
  LabelTable labels;                  ///< of `blocks` and of the snapshot's marks

  /// @name Only in Millrace's format
  /// @{
  std::string program;                       ///< the recorded program, in words
  std::vector<std::uint64_t> device_memory;  ///< by device: its bytes; 0 if unknown
  bool times_are_positions = false;          ///< times are positions of events
  bool addresses_are_made_up = false;        ///< addresses are not the real ones
  /// @}

  /// By device: the layout before the first event. Empty if the format does not have the bytes that
  /// the recorded allocator reserved; without segments if it began with none.
  std::vector<TorchLayout> initial;
  /// Only for a PyTorch snapshot. Its stacks and labels are those of the log: `whole_snapshot`.
  std::optional<TorchSnapshot> snapshot;
  /// The log of pinned host memory of a PyTorch snapshot, if it was recorded: none or one. Its
  /// device is 0. Requested sizes are not recorded, so the log has sizes of blocks instead.
  std::vector<AllocationLog> host;

  [[nodiscard]] bool has_addresses() const noexcept { return trace::has_addresses(format); }
};

/**
 * @brief Whether the log has the addresses of a segment. Millrace's format lacks the addresses of
 *        the driver's pools: such an event has the address 0. An event that returns all reserved
 *        memory is a reset of the device.
 */
[[nodiscard]] bool has_place(const AllocationLog& log, const LogEvent& segment) noexcept;

/**
 * @brief The innermost frame of a stack in one line: "train_step (app.cpp:12)"; "" without a stack.
 */
[[nodiscard]] std::string site_name(const StackTable& stacks, StackTable::Id stack);

/**
 * @brief The lifetime of every block of a device, from allocate to free_requested, in the order of
 *        `log.blocks`. The unit of time is the index of the event.
 *
 * Blocks that are live at the start begin at -1. Blocks that are never freed live until the end. A
 * block that was freed before the log begins has an empty lifetime, even if its free completes
 * within the log.
 */
[[nodiscard]] std::vector<Interval> lifetimes(const AllocationLog& log, std::uint32_t device = 0);

}  // namespace millrace::trace
