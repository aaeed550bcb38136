#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/memory/observer.hpp"
#include "millrace/observe/call_stacks.hpp"
#include "millrace/observe/ordering_history.hpp"

namespace millrace {

/** @brief Part of a trace: the events after `begin`, up to and including `end`. */
struct TraceWindow {
  TracePosition begin = 0;
  TracePosition end = kNever;
};

/** @brief One allocation and its free. */
struct TracedBlock {
  std::uint64_t id = 0;
  std::uintptr_t address = 0;
  std::size_t requested = 0;  ///< requested bytes
  std::size_t bytes = 0;      ///< bytes of the block
  StreamId owner;
  StreamId user;                             ///< the stream that could use it first
  std::uint32_t tag = 0;                     ///< AllocationTrace::tag_name
  CallStacks::Id stack = CallStacks::kNone;  ///< stack of its allocation, in Options::stacks
  TracePosition allocated = 0;
  TracePosition freed = kNever;    ///< kNever: still live
  std::vector<Point> free_points;  ///< all of them must happen before the next use of the memory
};

/** @brief A recorded use by another stream. */
struct TracedUse {
  TracePosition position = 0;
  std::uint64_t id = 0;  ///< id of the allocation
  StreamId stream;
};

/**
 * @brief A segment, from its acquisition to its release.
 *
 * The memory by which a growable range grew is a segment; it is split if only a part was released.
 */
struct TracedSegment {
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  TracePosition acquired = 0;
  TracePosition released = kNever;
};

/** @brief Pages of free memory that have other addresses from `position` on. */
struct TracedMove {
  TracePosition position = 0;
  std::uintptr_t to = 0, from = 0;
  std::size_t bytes = 0;
};

/**
 * @brief Records what an allocator does, in order.
 *
 *   AllocationTrace trace;
 *   allocator.observe(&trace);
 *   ... warm up ...; trace.begin_window("steady"); ... steps ...; trace.begin_window("end");
 *   Ladder ladder = attribute(trace, {.window = trace.window("steady")});
 *
 * Recording and `begin_window` are thread-safe. Call the other functions while nothing is recorded.
 * The trace needs about 140 bytes of memory per allocation, and with a clock 8 per event. It keeps
 * only the changes of frontiers. It does not know blocks that were allocated before it began, and
 * ignores their frees.
 */
class AllocationTrace final : public AllocationObserver {
 public:
  /** @brief What a trace records, and how much of it is kept. */
  struct Options {
    /// Keep about this many of the newest allocations, and all that are live, or freed but not
    /// known to be complete; 0: keep all.
    std::size_t keep = 0;
    /// With `keep`: also forgets freed blocks that only their owner's stream used, and freed blocks
    /// whose memory was allocated again, even if they are not known to be complete. A snapshot does
    /// not need them. Ladders and checks of reuse do.
    bool for_snapshots = false;
    /// Gets the stack of each allocation, and outlives this object; nullptr: no stacks.
    CallStacks* stacks = nullptr;
    /// Returns the time of an event in microseconds since the epoch; empty: events have no times.
    std::function<std::int64_t()> clock{};
  };

  /** @brief A part of a trace that has a name. */
  struct Mark {
    TracePosition position;
    std::string name;
  };

  AllocationTrace() = default;
  explicit AllocationTrace(Options options) : options_(std::move(options)) {}

  void allocated(const AllocationEvent& event) override;
  /** @brief Records a block that was allocated before the trace began. It has no stack. */
  void found(const AllocationEvent& event);
  void use_recorded(std::uint64_t id, StreamId stream) override;
  void freed(const FreeEvent& event) override;
  void segment_acquired(void* base, std::size_t bytes) override;
  void segment_released(void* base, std::size_t bytes) override;
  void pages_moved(void* to, void* from, std::size_t bytes) override;

  /** @brief Begins the window `name`, which lasts until the next one begins. */
  TracePosition begin_window(std::string name);

  /**
   * @brief The latest window with this name.
   * @throws std::out_of_range if it does not exist, or if it or its beginning was discarded
   */
  [[nodiscard]] TraceWindow window(std::string_view name) const;

  /**
   * @brief Forgets the records that cannot matter to a window that begins at `position` or later.
   *
   * These are the records from before `position`: blocks that were freed and known to be complete,
   * released segments, the moments at which streams were ordered, and windows that ended.
   */
  void discard_before(TracePosition position);

  /** @brief Calls `read` while nothing is recorded: threads that allocate wait for it. It must not
   *         record, `begin_window`, or allocate on the allocator that is observed. */
  void read(const std::function<void()>& read) const;

  /** @brief Windows must not begin before this position; 0 if nothing was discarded. */
  [[nodiscard]] TracePosition complete_from() const noexcept { return complete_from_; }

  /** @brief The position of the last event. */
  [[nodiscard]] TracePosition position() const noexcept { return position_; }
  [[nodiscard]] std::span<const TracedBlock> blocks() const noexcept { return blocks_; }  ///< by id
  [[nodiscard]] std::span<const TracedUse> uses() const noexcept { return uses_; }
  [[nodiscard]] std::span<const TracedSegment> segments() const noexcept { return segments_; }
  [[nodiscard]] std::span<const TracedMove> moves() const noexcept { return moves_; }
  [[nodiscard]] const OrderingHistory& ordering() const noexcept { return ordering_; }
  [[nodiscard]] std::span<const Mark> marks() const noexcept { return marks_; }  ///< in order
  /** @brief The stacks of blocks; nullptr without stacks. */
  [[nodiscard]] CallStacks* stacks() const noexcept { return options_.stacks; }
  /** @brief The time of an event, in microseconds since the epoch. An event that was discarded has
   *         the time of the oldest one that is kept. Without a clock, the position itself. */
  [[nodiscard]] std::int64_t time_us(TracePosition position) const noexcept;
  [[nodiscard]] const std::string& tag_name(std::uint32_t tag) const { return tags_.at(tag); }

 private:
  TracePosition next_position();
  void add(const AllocationEvent& event, CallStacks::Id stack);
  [[nodiscard]] TracePosition forgettable_from(const TracedBlock& block) const;
  void forget_blocks(TracePosition position);
  void acquire(void* base, std::size_t bytes);
  void release(void* base, std::size_t bytes);
  std::uint32_t tag_index(std::string_view name);
  void keep_bounded();

  mutable std::mutex mutex_;
  Options options_;
  TracePosition position_ = 0;
  TracePosition complete_from_ = 0;
  std::size_t discard_at_ = 0;
  std::deque<std::int64_t> times_;  // times of positions, the newest last
  std::vector<TracedBlock> blocks_;
  std::vector<TracedUse> uses_;
  std::vector<TracedSegment> segments_;
  std::vector<TracedMove> moves_;
  std::vector<Mark> marks_;
  std::vector<std::string> tags_;
  std::map<std::string, std::uint32_t, std::less<>> tag_indices_;
  OrderingHistory ordering_;
};

}  // namespace millrace
