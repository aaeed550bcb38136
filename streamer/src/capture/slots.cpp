#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "capture/state.hpp"
#include "capture/succeeds.hpp"

namespace millrace {

using namespace capture;

void Capture::State::make_slots() {
  if (options_.slots == 0) throw std::invalid_argument{"a capture has at least one slot"};
  if (options_.slot_bytes < rows_.least_bytes()) {
    throw std::invalid_argument{
        fmt::format("a slot of {} bytes has no room for a row of each table: {} are the least",
                    options_.slot_bytes, rows_.least_bytes())};
  }
  slots_.resize(options_.way == CaptureWay::mapped ? 1 : options_.slots);
  for (std::size_t i = 0; i < std::min<std::size_t>(slots_.size(), 2); ++i) {
    slots_[i] = made(Slot::Stage::free);
  }
  if (options_.way != CaptureWay::ring_kernel) return;
  Allocator& memory = context_.allocator();
  for (Staging& staging : stagings_) {
    staging.device = {memory, slot_bytes(), context_.main(), memory.tag("captured rows")};
  }
}

std::size_t Capture::State::slot_bytes() const {
  return std::min(options_.slot_bytes, rows_.most_bytes());
}

Capture::State::Slot Capture::State::made(Slot::Stage stage) const {
  const std::size_t bytes = slot_bytes();
  Stream& main = context_.main();
  Allocator& memory = context_.allocator();
  Slot made;
  if (options_.way != CaptureWay::mapped && options_.way != CaptureWay::ring_kernel) {
    made.device = {memory, bytes, main, memory.tag("captured rows")};
  }
  if (options_.way == CaptureWay::sync_pageable) {
    made.pageable.resize(bytes);
  } else {
    made.pinned = {setting_.pinned, bytes, main, setting_.pinned.tag("captured rows")};
  }
  made.stage = stage;
  return made;
}

// Where the host is further ahead than ever: another one, if there may be. Without memory for it
// there are as many as there are.
std::optional<std::size_t> Capture::State::make_slot(StreamRef on) {
  std::size_t number = 0;
  {
    const std::lock_guard lock{mutex_};
    const auto none = std::ranges::find(slots_, Slot::Stage::none, &Slot::stage);
    if (no_more_slots_ || none == slots_.end()) return {};
    number = static_cast<std::size_t>(none - slots_.begin());
  }
  const bool usable = succeeds([&] {
    Slot slot = made(Slot::Stage::gathering);
    ordered_.record(made_, context_.main());
    ordered_.wait(on, made_);
    const std::lock_guard lock{mutex_};
    slots_[number] = std::move(slot);
  });
  if (usable) return number;
  failed();
  no_more_slots_ = true;
  return {};
}

std::optional<std::size_t> Capture::State::acquire(StreamRef on, Nanoseconds patience) {
  std::optional<std::size_t> slot = take_slot(on);
  if (!slot) slot = make_slot(on);
  if (slot || patience <= Nanoseconds{0}) return slot;
  const Nanoseconds from = setting_.executor.now();
  static_cast<void>(wait_until([&] { return (slot = take_slot(on)).has_value(); }, patience));
  const std::lock_guard lock{mutex_};
  ++counts_.waits;
  counts_.waited += setting_.executor.now() - from;
  return slot;
}

std::optional<std::size_t> Capture::State::take_slot(StreamRef on) {
  std::optional<std::size_t> taken;
  bool returning = false;
  {
    const std::lock_guard lock{mutex_};
    setting_.executor.acquired(this);
    for (const Slot::Stage stage : {Slot::Stage::free, Slot::Stage::returning}) {
      for (std::size_t i = 0; i < slots_.size() && !taken; ++i) {
        if (slots_[i].stage != stage) continue;
        taken = i;
        returning = stage == Slot::Stage::returning;
      }
    }
    if (!taken) return {};
    if (!returning) slots_[*taken].stage = Slot::Stage::gathering;
  }
  Slot& slot = slots_[*taken];
  const bool usable = succeeds([&] {
    if (slot.unsure) {
      Event copied;
      ordered_.record(copied, *copy_);
      ordered_.wait(on, copied);
      slot.unsure = false;
    }
    if (returning) mark_returned(slot, on);
  });
  if (!usable) {
    failed();
    if (!returning) set_stage(slot, Slot::Stage::free);
    return {};
  }
  set_stage(slot, Slot::Stage::gathering);
  return taken;
}

std::size_t Capture::State::free_slots() const {
  const std::lock_guard lock{mutex_};
  return static_cast<std::size_t>(
      std::ranges::count(slots_, Slot::Stage::free, [](const Slot& slot) { return slot.stage; }));
}

// Asks again and again, less and less often: so late by an eighth of the time at most.
bool Capture::State::wait_until(const std::function<bool()>& condition, Nanoseconds patience) {
  constexpr Nanoseconds kShortest = std::chrono::microseconds{1};
  constexpr Nanoseconds kLongest = std::chrono::milliseconds{1};
  const Nanoseconds from = setting_.executor.now();
  while (!condition()) {
    const Nanoseconds waited = setting_.executor.now() - from;
    if (waited >= patience) return false;
    setting_.executor.spend(std::clamp(waited / 8, kShortest, kLongest));
  }
  return true;
}

}  // namespace millrace
