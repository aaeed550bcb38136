#include "ordering/blocking_group.hpp"

#include <algorithm>

namespace millrace::ordering {

void BlockingGroup::enter(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (slot.count.counts_epochs()) return;
  const Marker next = slot.count.next(epoch);
  slot.count.set_counting(next, epoch);
  slot.epochs.note(epoch, next);
  if (slot.settled == Slot::kNever) slot.settled = completed.load();
  members_.insert(index);
  ++members;
  if (!slot.frontier.empty()) waited(index, slot.frontier);
}

void BlockingGroup::leave(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (!slot.count.counts_epochs()) return;
  slot.count.set(slot.count.next(epoch));
  slot.epochs.note_left(epoch, newest_published_);
  members_.erase(index);
  --members;
  waits_are_stale_ |= slot.waited_in >= waits_since_ && !waits_.empty();
}

// The points of a member that left no longer count, and cannot be taken out of a joined frontier.
// So the frontier is made again from the remaining members that waited.
const Frontier& BlockingGroup::waits() {
  if (!waits_are_stale_) return waits_;
  waits_.clear();
  for_each_member([&](std::uint32_t index) {
    const Slot& slot = slots_[index];
    count_steps(1);
    if (slot.waited_in >= waits_since_) waits_.join(slot.frontier);
  });
  waits_are_stale_ = false;
  return waits_;
}

void BlockingGroup::waited(std::uint32_t index, const Frontier& after) {
  slots_[index].waited_in = epoch;
  last_wait_ = epoch;
  if (legacy != SlotSet::kNone) waits_.join(after);
}

// A wait in epoch `begun` or later may have come after the record collected the waits: then all
// waits are kept.
void BlockingGroup::published(Marker begun) {
  newest_published_ = std::max(newest_published_, begun);
  if (last_wait_ >= begun) return;
  waits_.clear();
  waits_are_stale_ = false;
  waits_since_ = begun;
}

void BlockingGroup::forget_published() {
  newest_published_ = 0;
  for (std::uint32_t i = 0; epoch != 0 && i < slots_.size(); ++i) slots_[i].epochs.forget_left();
  waits_since_ = 0;
  waits_.clear();
  waits_are_stale_ = members != 0;
}

// Only a stream with markers and a closed stream need to learn of a complete epoch at once.
void BlockingGroup::watch(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (slot.is_watched || legacy == SlotSet::kNone) return;
  const bool is_closed = slot.phase == Phase::closed;
  if (!is_closed && slot.markers.empty()) return;
  const Marker due =
      slot.epochs.first_reaching(is_closed ? slot.count.next(epoch) : slot.markers[0].marker);
  if (due <= completed) return;  // no epoch will complete it, or the epoch was never recorded
  slot.is_watched = true;
  watched_.push_back({due, index});
}

std::optional<std::uint32_t> BlockingGroup::take_due() {
  if (watched_.empty() || watched_.front().due > completed) return std::nullopt;
  const std::uint32_t index = watched_.front().index;
  watched_.pop_front();
  slots_[index].is_watched = false;
  return index;
}

}  // namespace millrace::ordering
