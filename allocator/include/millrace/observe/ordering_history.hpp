#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "millrace/ordering/frontier.hpp"

namespace millrace {

/** @brief A position in a recorded sequence of events, from 1; 0 is before all events. */
using TracePosition = std::uint64_t;

inline constexpr TracePosition kNever = std::numeric_limits<TracePosition>::max();

/**
 * @brief The first position at which each stream was ordered after each point.
 *
 * The input is snapshots of frontiers at ascending positions. Only changes are kept, so memory
 * grows with the number of changes and not with the number of snapshots. Frontiers never go back:
 * an entry that a snapshot lacks (because it is complete) stays as it was. As in a Frontier, an
 * entry for a stream covers all earlier streams of the same slot.
 */
class OrderingHistory {
 public:
  /** @brief Adds a snapshot: at `position`, `stream` was ordered after all points of `frontier`. */
  void stream_saw(StreamId stream, const Frontier& frontier, TracePosition position);

  /** @brief Adds a snapshot: at `position`, all points of `completed` were known to be complete. */
  void device_finished(const Frontier& completed, TracePosition position);

  /**
   * @brief First position at which `stream` was ordered after `point`, or kNever.
   *
   * Does not include the stream's own program order or completion.
   */
  [[nodiscard]] TracePosition ordered_from(Point point, StreamId stream) const;

  /** @brief First position at which `point` was known to be complete, or kNever. */
  [[nodiscard]] TracePosition completed_from(Point point) const;

  /**
   * @brief The streams that were ever ordered after a point of a stream in this slot.
   *
   * For all other streams `ordered_from` is kNever.
   */
  [[nodiscard]] std::span<const StreamId> observers_of(std::uint32_t slot) const;

  /**
   * @brief Forgets the exact positions of changes before `position`.
   *
   * An answer before `position` may then be any position up to it; other answers do not change.
   */
  void discard_before(TracePosition position);

  /** @brief Number of changes kept; the history's memory is proportional to it. */
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  struct Step {
    TracePosition position;
    Point point;
  };
  /** For each slot, the points seen for its successive streams; both members of a step ascend. */
  class Log {
   public:
    /** @param new_slot  called with each slot that the log had no point for */
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
