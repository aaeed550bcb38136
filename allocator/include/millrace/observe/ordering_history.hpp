#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "millrace/ordering/frontier.hpp"

namespace millrace {

/** @brief A place in a recorded order of events, counted from 1. 0 lies before all of them. */
using TracePosition = std::uint64_t;

inline constexpr TracePosition kNever = std::numeric_limits<TracePosition>::max();

/**
 * @brief From when on each stream was seen to be ordered after each point.
 *
 * Fed with snapshots of frontiers at ascending positions. Only changes are kept, so that memory
 * grows with the ordering that happened and not with the number of snapshots. Frontiers never go
 * back; an entry that a snapshot lacks (because it is known to be complete) stays as it was. As in
 * a Frontier, an entry for a slot's tenant covers all earlier tenants.
 */
class OrderingHistory {
 public:
  /** @brief At `position`, `stream` was ordered after all of `frontier`. */
  void stream_saw(StreamId stream, const Frontier& frontier, TracePosition position);

  /** @brief At `position`, the device was known to have finished all of `completed`. */
  void device_finished(const Frontier& completed, TracePosition position);

  /** @brief First position at which work on `stream` was seen ordered after `point`, or kNever.
   * Own program order and completion are not counted. */
  [[nodiscard]] TracePosition ordered_from(Point point, StreamId stream) const;

  /** @brief First position at which `point` was known to be complete, or kNever. */
  [[nodiscard]] TracePosition completed_from(Point point) const;

  /** @brief Streams that were ever seen ordered after a point of this slot's tenants; for all
   * others `ordered_from` is kNever. */
  [[nodiscard]] std::span<const StreamId> observers_of(std::uint32_t slot) const;

  /** @brief Forgets when before `position` things changed. Answers below it become inexact: they
   * are at or before `position` if they were before, and otherwise the same. */
  void discard_before(TracePosition position);

  /** @brief Changes kept. */
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  struct Step {
    TracePosition position;
    Point point;
  };
  /** For each slot the points seen, of its tenants in turn; both members of a step ascend. */
  class Log {
   public:
    /** @param new_slot  called with each slot that the log had no point of */
    template <typename NewSlot>
    void add(const Frontier& frontier, TracePosition position, NewSlot new_slot);
    [[nodiscard]] TracePosition from(Point point) const;
    void discard_before(TracePosition position);
    [[nodiscard]] std::size_t size() const noexcept;

   private:
    Frontier last_;
    std::unordered_map<std::uint32_t, std::vector<Step>> steps_;
  };

  Log completed_;
  std::unordered_map<StreamId, Log> streams_;
  std::unordered_map<std::uint32_t, std::vector<StreamId>> observers_;  // by slot
};

}  // namespace millrace
