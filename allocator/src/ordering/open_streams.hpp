#pragma once

#include "ordering/ledger_state.hpp"

namespace millrace::ordering {

/**
 * Answers the ledger's most frequent questions with inline code: each allocation and free asks them
 * several times.
 */
class OpenStreams {
 public:
  /** @param ledger  must outlive this object */
  explicit OpenStreams(const Ledger& ledger) noexcept : ledger_(ledger), state_(*ledger.state_) {}

  /** Returns the same as `Ledger::next_if_open`. */
  [[nodiscard, gnu::always_inline]] Marker next(StreamId stream) const noexcept {
    const Slot* const slot = state_.slots.find(stream.slot);
    if (slot == nullptr || slot->generation != stream.generation) return 0;
    if (slot->phase != Phase::open) return 0;
    const Marker next = slot->count.next(state_.group.epoch);
    return slot->generation == stream.generation ? next : 0;  // 0: the slot's next stream
  }

  /** Returns the same as `Ledger::is_open`. */
  [[nodiscard]] bool is_open(StreamId stream) const noexcept {
    const Slot* const slot = state_.tenant(stream);
    return slot != nullptr && slot->phase == Phase::open;
  }

  /** Returns the same as `Ledger::completed`. */
  [[nodiscard]] bool completed(Point point) const {
    const Ledger::State::Answer answer = state_.completed_unlocked(point);
    if (answer == Ledger::State::Answer::ask) [[unlikely]]
      return ledger_.completed(point);
    return answer == Ledger::State::Answer::yes;
  }

 private:
  const Ledger& ledger_;
  const Ledger::State& state_;
};

}  // namespace millrace::ordering
