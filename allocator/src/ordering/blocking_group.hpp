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
 * All blocking streams as the legacy stream sees them: one stream more, with a number an epoch.
 *
 * A record on the legacy stream begins an epoch, and covers on each blocking stream the number that
 * the epoch took there (EpochLog). So the marker's snapshot holds one point of the group, {kId,
 * epoch}, however many blocking streams there are, and an epoch that is complete completes their
 * work. They notice when they are asked, or, if something waits for that, when they are due.
 *
 * Under the ledger's mutex, but for the atomic members.
 */
class BlockingGroup {
 public:
  static constexpr StreamId kId{SlotSet::kNone, 1};

  explicit BlockingGroup(StableTable<Slot>& slots) : slots_(slots) {}

  std::atomic<std::uint32_t> legacy{SlotSet::kNone};  // the legacy stream's slot, while it is open
  bool is_independent = false;       // there has been an independent blocking stream
  std::atomic<Marker> epoch{0};      // begun
  std::atomic<Marker> completed{0};  // of them
  std::atomic<std::uint32_t> members{0};

  /** Markers of the legacy stream by epoch. */
  NumberedRing<Alias> aliases;

  void enter(std::uint32_t index);
  /** The stream is closed, or is not blocking after all. */
  void leave(std::uint32_t index);
  [[nodiscard]] bool contains(std::uint32_t index) const {
    return slots_[index].count.counts_epochs();
  }

  /** What members waited for that the legacy stream's frontier may not hold. */
  [[nodiscard]] const Frontier& waits();
  void waited(std::uint32_t index, const Frontier& after);
  /** The legacy stream's frontier holds what members had waited for when `epoch` began. */
  void published(Marker epoch);
  /** Another legacy stream has been opened, which knows nothing yet. */
  void forget_published();

  /** The slot is to be looked at when an epoch is complete that completes some of its work. */
  void watch(std::uint32_t index);
  /** A slot that is due; it is not watched any more. */
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
  std::deque<Watched> watched_;  // at most one a slot
  Frontier waits_;
  Marker newest_published_ = 0;  // epoch of the present legacy stream
  Marker waits_since_ = 0;       // members that waited in this epoch or later count
  Marker last_wait_ = 0;
  bool waits_are_stale_ = false;  // a member that counted has left
};

}  // namespace millrace::ordering
