#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>

#include "ordering/slot.hpp"
#include "ordering/slot_set.hpp"
#include "ordering/stable_table.hpp"

namespace millrace::ordering {

/**
 * Represents all blocking streams to the legacy stream as one additional stream, which has one
 * marker for each epoch.
 *
 * A record on the legacy stream begins an epoch. On each blocking stream it covers the number that
 * the epoch took there (EpochLog). The marker's snapshot therefore has only one point for the
 * group, {kId, epoch}, for any number of blocking streams. A complete epoch completes their work up
 * to that number. A blocking stream takes note of that when a caller asks for its state, or, if
 * markers or a closed stream wait for it, as soon as the epoch is complete (`watch`).
 *
 * The ledger's mutex guards all members that are not atomic.
 */
class BlockingGroup {
 public:
  static constexpr StreamId kId{SlotSet::kNone, 1};

  explicit BlockingGroup(StableTable<Slot>& slots) : slots_(slots) {}

  std::atomic<std::uint32_t> legacy{SlotSet::kNone};  // the legacy stream's slot, while it is open
  bool is_independent = false;       // whether there was an independent blocking stream
  std::atomic<Marker> epoch{0};      // number of epochs that have begun
  std::atomic<Marker> completed{0};  // the newest complete epoch
  std::atomic<std::uint32_t> members{0};

  /** The legacy stream's markers by epoch. */
  NumberedRing<Alias> aliases;

  /** Adds a blocking stream. Its numbers contain the epoch from now on. */
  void enter(std::uint32_t index);
  /** Removes a stream that is closed, or that is not blocking anymore. */
  void leave(std::uint32_t index);
  [[nodiscard]] bool contains(std::uint32_t index) const {
    return slots_[index].count.counts_epochs();
  }

  /** Returns what members waited for, as far as the legacy stream's frontier may lack it. */
  [[nodiscard]] const Frontier& waits();
  /** Notes that a member waited for `after`. */
  void waited(std::uint32_t index, const Frontier& after);
  /**
   * Notes that the legacy stream's frontier includes all that members had waited for when `epoch`
   * began.
   */
  void published(Marker epoch);
  /** Notes that another legacy stream was opened, which is ordered after nothing yet. */
  void forget_published();

  /** Makes `take_due` return the slot after an epoch that completes some of its work. */
  void watch(std::uint32_t index);
  /** Returns a slot that is due, and stops watching it. */
  [[nodiscard]] std::optional<std::uint32_t> take_due();

  template <typename Visit>
  void for_each_member(Visit visit) const {
    for (auto i = members_.next(0); i != SlotSet::kNone; i = members_.next(i + 1)) visit(i);
  }

 private:
  struct Watched {
    Marker due;
    std::uint32_t index;
  };

  StableTable<Slot>& slots_;
  SlotSet members_;
  std::deque<Watched> watched_;  // at most one entry for each slot
  Frontier waits_;
  Marker newest_published_ = 0;  // the newest epoch that the present legacy stream has published
  Marker waits_since_ = 0;  // `waits_` includes the waits of members in this epoch and later ones
  Marker last_wait_ = 0;
  bool waits_are_stale_ = false;  // a member has left whose waits are in `waits_`
};

}  // namespace millrace::ordering
