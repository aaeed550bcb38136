#pragma once

#include "ordering/ledger_state.hpp"

namespace millrace::ordering {

/**
 * Answers the ledger's most frequent question with inline code: each allocation and free asks it
 * twice.
 */
class OpenStreams {
 public:
  /** @param ledger  must outlive this object */
  explicit OpenStreams(const Ledger& ledger) noexcept : state_(*ledger.state_) {}

  /** Returns the same as `Ledger::next_if_open`. */
  [[nodiscard, gnu::always_inline]] Marker next(StreamId stream) const noexcept {
    const Slot* const slot = state_.slots.find(stream.slot);
    if (slot == nullptr || slot->generation != stream.generation) return 0;
    if (slot->phase != Phase::open) return 0;
    const Marker next = slot->count.next(state_.group.epoch);
    return slot->generation == stream.generation ? next : 0;  // 0: the slot's next stream
  }

 private:
  const Ledger::State& state_;
};

}  // namespace millrace::ordering
