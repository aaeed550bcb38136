#pragma once

#include "capture/capture_counters.hpp"
#include "capture/dirty_protocol.hpp"
#include "capture/slot_pool.hpp"

namespace millrace::capture {

/**
 * @brief The parts that the training thread and the copier of a capture share. All are thread-safe.
 */
struct SharedParts {
  SlotPool slots;
  DirtyProtocol dirty;
  CaptureCounters counters;

  /**
   * @brief Call if the rows of a slot could not be delivered: they become dirty before the slot is
   * used again.
   * @param rows  upper bound
   */
  void return_slot(Slot& slot, std::uint64_t rows) {
    dirty.returned(rows);  // first, because another thread may mark the slot as soon as it sees it
    counters.change([&](CaptureCounts& counts) { counts.returned_rows += rows; });
    slots.set_returning(slot, rows);
  }
  /** @brief Makes all rows dirty, because it is unknown which rows must be. */
  void return_all() {
    dirty.return_all();
    counters.change([](CaptureCounts& counts) { ++counts.everything_marked; });
  }
  /**
   * @brief Returns false only if no row is dirty. Reads the slots first: when a slot is marked, its
   * rows are in the protocol before its stage changes.
   */
  [[nodiscard]] bool maybe_dirty() const { return slots.any_returning() || dirty.maybe_dirty(); }
};

}  // namespace millrace::capture
