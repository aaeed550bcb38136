#pragma once

#include "capture/capture_counters.hpp"
#include "capture/dirty_protocol.hpp"
#include "capture/slot_pool.hpp"

namespace millrace::capture {

/** @brief What the training thread and the copier of a capture share. Each part is thread-safe. */
struct SharedParts {
  SlotPool slots;
  DirtyProtocol dirty;
  CaptureCounters counters;

  /** @brief The rows of a slot could not be delivered: they become dirty before it is used again.
   *  @param rows  upper bound */
  void return_slot(Slot& slot, std::uint64_t rows) {
    dirty.returned(rows);  // before another thread can see the slot, and mark it
    counters.change([&](CaptureCounts& counts) { counts.returned_rows += rows; });
    slots.set_returning(slot, rows);
  }
  /** @brief All rows become dirty, because it is unknown which must. */
  void return_all() {
    dirty.return_all();
    counters.change([](CaptureCounts& counts) { ++counts.everything_marked; });
  }
  /** @brief True unless no row is dirty. Slots first: when a slot is marked, its rows are in the
   *         protocol before its stage changes. */
  [[nodiscard]] bool maybe_dirty() const { return slots.any_returning() || dirty.maybe_dirty(); }
};

}  // namespace millrace::capture
