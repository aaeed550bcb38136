#pragma once

#include "ordering/ledger_state.hpp"

namespace millrace::ordering {

/** @brief The ledger's most frequent question, as inline code: twice in each allocation and free.
 */
class OpenStreams {
 public:
  /** @param ledger  lives longer than this */
  explicit OpenStreams(const Ledger& ledger) noexcept : state_(*ledger.state_) {}

  /** @brief The same as `Ledger::next_if_open`. */
  [[nodiscard, gnu::always_inline]] Marker next(StreamId stream) const noexcept {
    const Slot* const slot = state_.slots.find(stream.slot);
    if (slot == nullptr || slot->generation != stream.generation) return 0;
    if (slot->phase != Phase::open) return 0;
    const Marker next = slot->count.next(state_.group.epoch);
    return slot->generation == stream.generation ? next : 0;  // another tenant's by now
  }

 private:
  const Ledger::State& state_;
};

}  // namespace millrace::ordering
