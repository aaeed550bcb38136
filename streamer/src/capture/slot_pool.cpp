#include "capture/slot_pool.hpp"

#include <algorithm>
#include <utility>

namespace millrace::capture {

SlotPool::SlotPool(const CaptureEnvironment& environment, const Layout& layout)
    : environment_(environment), layout_(layout), slots_(layout.slots) {
  // With two slots, one step is copied while the next is gathered. A host that runs further ahead
  // needs more, which are made on demand.
  for (std::size_t i = 0; i < std::min<std::size_t>(slots_.size(), 2); ++i) {
    slots_[i] = made(Slot::Stage::free);
  }
}

Slot SlotPool::made(Slot::Stage stage) const {
  const CaptureMode mode = layout_.mode;
  Stream& main = environment_.context.main();
  Allocator& memory = environment_.context.allocator();
  Slot made;
  if (mode != CaptureMode::mapped && mode != CaptureMode::ring_kernel) {
    made.device = {memory, layout_.bytes, main, memory.tag("captured rows")};
  }
  if (mode == CaptureMode::sync_pageable) {
    made.pageable.resize(layout_.bytes);
  } else {
    Allocator& pinned = environment_.pinned;
    made.pinned = {pinned, layout_.bytes, main, pinned.tag("captured rows")};
  }
  made.stage = stage;
  return made;
}

std::optional<std::size_t> SlotPool::first_without_memory() const {
  const std::lock_guard lock{mutex_};
  const auto none = std::ranges::find(slots_, Slot::Stage::none, &Slot::stage);
  if (no_more_ || none == slots_.end()) return {};
  return static_cast<std::size_t>(none - slots_.begin());
}

void SlotPool::add(std::size_t number, Slot slot) {
  const std::lock_guard lock{mutex_};
  slots_[number] = std::move(slot);
}

std::optional<SlotPool::Taken> SlotPool::take() {
  const std::lock_guard lock{mutex_};
  environment_.executor.acquired(this);
  // Returning slots come last, because their rows must first be marked on the device.
  for (const Slot::Stage stage : {Slot::Stage::free, Slot::Stage::returning}) {
    const auto found = std::ranges::find(slots_, stage, &Slot::stage);
    if (found == slots_.end()) continue;
    const bool returning = stage == Slot::Stage::returning;
    if (!returning) found->stage = Slot::Stage::gathering;
    return Taken{static_cast<std::size_t>(found - slots_.begin()), returning};
  }
  return {};
}

std::size_t SlotPool::count_free() const {
  const std::lock_guard lock{mutex_};
  return static_cast<std::size_t>(std::ranges::count(slots_, Slot::Stage::free, &Slot::stage));
}

void SlotPool::set(Slot& slot, Slot::Stage stage) {
  const std::lock_guard lock{mutex_};
  slot.stage = stage;
  environment_.executor.released(this);
}

void SlotPool::set_returning(Slot& slot, std::uint64_t rows) {
  const std::lock_guard lock{mutex_};
  slot.stage = Slot::Stage::returning;
  slot.returned = rows;
  environment_.executor.released(this);
}

bool SlotPool::returning(const Slot& slot) const {
  const std::lock_guard lock{mutex_};
  environment_.executor.acquired(this);
  return slot.stage == Slot::Stage::returning;
}

bool SlotPool::any_returning() const {
  const std::lock_guard lock{mutex_};
  return std::ranges::find(slots_, Slot::Stage::returning, &Slot::stage) != slots_.end();
}

void SlotPool::begin_gather(Slot& slot, std::uint64_t sequence, std::uint64_t rows) {
  const std::lock_guard lock{mutex_};
  slot.sequence = sequence;
  slot.listed = rows;
  slot.torn = false;
}

void SlotPool::tear_copying() {
  const std::lock_guard lock{mutex_};
  for (Slot& slot : slots_) slot.torn = slot.torn || slot.stage == Slot::Stage::copying;
}

bool SlotPool::torn(const Slot& slot) const {
  const std::lock_guard lock{mutex_};
  return slot.torn;
}

}  // namespace millrace::capture
