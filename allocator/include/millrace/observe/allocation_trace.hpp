#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/memory/observer.hpp"
#include "millrace/observe/ordering_history.hpp"

namespace millrace {

/** @brief A stretch of a trace: events after `begin`, up to and including `end`. */
struct TraceWindow {
  TracePosition begin = 0;
  TracePosition end = kNever;
};

/** @brief One allocation, from when it was given out until it came back. */
struct TracedBlock {
  std::uint64_t id = 0;
  std::uintptr_t address = 0;
  std::size_t requested = 0;  ///< bytes asked for
  std::size_t bytes = 0;      ///< bytes of the block
  StreamId owner;
  StreamId user;          ///< who could use it first
  std::uint32_t tag = 0;  ///< AllocationTrace::tag_name
  TracePosition allocated = 0;
  TracePosition freed = kNever;    ///< kNever: still live
  std::vector<Point> free_points;  ///< who has to be waited for before it can be used again
};

/** @brief A use by another stream, as it was recorded. */
struct TracedUse {
  TracePosition position = 0;
  std::uint64_t id = 0;  ///< of the allocation
  StreamId stream;
};

/** @brief A segment, from when it was acquired until it was released. Of a range: what it grew by,
 * cut where only a part of that was given back. */
struct TracedSegment {
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  TracePosition acquired = 0;
  TracePosition released = kNever;
};

/**
 * @brief Records what an allocator did, in the order in which it did it.
 *
 *   AllocationTrace trace;
 *   allocator.observe(&trace);
 *   ... warm up ...; trace.mark("steady"); ... steps ...; trace.mark("end");
 *   Ladder ladder = attribute(trace, {.window = trace.window("steady")});
 *
 * Recording and `mark` may come from any thread. Everything else is to be called while nothing is
 * recorded. Memory is about 130 bytes an allocation; frontiers are kept as changes only. Blocks
 * that were given out before the trace began are not known, and their frees are passed over.
 */
class AllocationTrace final : public AllocationObserver {
 public:
  struct Options {
    /** Keep about this many of the newest allocations (and all that are live, or freed and not
     * known to be complete); 0: all. */
    std::size_t keep = 0;
  };

  AllocationTrace() = default;
  explicit AllocationTrace(Options options) : options_(options) {}

  void allocated(const AllocationEvent& event) override;
  void use_recorded(std::uint64_t id, StreamId stream) override;
  void freed(const FreeEvent& event) override;
  void segment_acquired(void* base, std::size_t bytes) override;
  void segment_released(void* base, std::size_t bytes) override;

  /** @brief Begins the window `name`, which lasts until the next mark. */
  TracePosition mark(std::string name);

  /** @brief The latest window of that name. @throws std::out_of_range if there is none, or if its
   * beginning has been discarded */
  [[nodiscard]] TraceWindow window(std::string_view name) const;

  /** @brief Forgets what can not matter to a window that begins at `position` or later: blocks
   * freed and known to be complete before, segments released before, and when things got ordered.
   */
  void discard_before(TracePosition position);

  /** @brief Windows must not begin before this. 0 unless something was discarded. */
  [[nodiscard]] TracePosition complete_from() const noexcept { return complete_from_; }

  [[nodiscard]] TracePosition position() const noexcept {
    return position_;
  }  ///< of the last event
  [[nodiscard]] std::span<const TracedBlock> blocks() const noexcept { return blocks_; }  ///< by id
  [[nodiscard]] std::span<const TracedUse> uses() const noexcept { return uses_; }
  [[nodiscard]] std::span<const TracedSegment> segments() const noexcept { return segments_; }
  [[nodiscard]] const OrderingHistory& ordering() const noexcept { return ordering_; }
  [[nodiscard]] const std::string& tag_name(std::uint32_t tag) const { return tags_.at(tag); }

 private:
  struct Mark {
    TracePosition position;
    std::string name;
  };

  std::uint32_t tag_index(std::string_view name);
  void keep_bounded();

  std::mutex mutex_;
  Options options_;
  TracePosition position_ = 0;
  TracePosition complete_from_ = 0;
  std::size_t discard_at_ = 0;
  std::vector<TracedBlock> blocks_;
  std::vector<TracedUse> uses_;
  std::vector<TracedSegment> segments_;
  std::vector<Mark> marks_;
  std::vector<std::string> tags_;
  std::map<std::string, std::uint32_t, std::less<>> tag_indices_;
  OrderingHistory ordering_;
};

}  // namespace millrace
