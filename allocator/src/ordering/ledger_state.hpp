#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "millrace/ordering/ledger.hpp"
#include "ordering/blocking_group.hpp"
#include "ordering/progress_log.hpp"
#include "ordering/slot.hpp"
#include "ordering/slot_set.hpp"
#include "ordering/stable_table.hpp"

namespace millrace {

struct Ledger::State {
  using Slot = ordering::Slot;
  using Phase = ordering::Phase;
  using Published = ordering::Published;
  using SlotSet = ordering::SlotSet;

  static constexpr StreamId kGroup = ordering::BlockingGroup::kId;

  mutable std::mutex mutex;  // of everything but atomic members
  ordering::StableTable<Slot> slots;
  ordering::BlockingGroup group{slots};
  ordering::ProgressLog progress;        // kGroup: of every blocking stream
  std::atomic<std::uint64_t> waits{0};   // that changed a frontier
  std::atomic<std::uint64_t> serial{0};  // markers published
  std::atomic<std::size_t> outstanding_markers{0};

  std::vector<std::uint32_t> vacant;
  SlotSet with_markers;
  std::size_t tracked = 0;
  Frontier completed_frontier;  // of all slots; those that never completed anything are left out
  Frontier reached;             // memory for `complete`
  std::vector<MarkerToken> returned;  // by streams that noticed late; given out with the next ones

  // Without the lock.
  Slot* tenant(StreamId stream) const {
    Slot* slot = slots.find(stream.slot);
    return slot != nullptr && slot->generation == stream.generation ? slot : nullptr;
  }
  /** Nothing follows a closed stream's last marker. */
  Marker within(const Slot& slot, Marker marker) const {
    return slot.phase == Phase::closed ? std::min(marker, slot.count.next(group.epoch)) : marker;
  }
  enum class Answer : unsigned char { no, yes, ask };
  /** `ask`: not known without the lock; a closed stream's, or the group's. */
  Answer completed_unlocked(Point point) const;
  /** As far as is known without asking the group. */
  bool known_complete(Point point) const;
  /** Whether a point that is not known to be complete may be so by the group. */
  bool may_be_complete(Point point) const;
  /** Like `ordered`, for an open stream, as far as shared frontiers can decide. */
  ordering::SharedFrontier::Answer ordered_unlocked(Point point, StreamId user) const;

  // Under the lock.
  Slot& open_slot(StreamId stream) const;
  void declare(std::uint32_t index, StreamTraits traits);
  bool completed(Point point);
  bool covers(const Frontier& frontier, Point point) const;
  bool ordered(Point point, const Slot& user);
  void drop_completed(Frontier& frontier);
  Frontier beyond_last(const Frontier& frontier) const;
  /** With points of streams in place of those of the group. */
  Frontier spelled_out(Frontier frontier);
  void order(std::uint32_t index, const Frontier& after);
  void wait(std::uint32_t index, const Frontier& after);
  /** What an operation enqueued on the stream now is ordered after, according to markers. */
  void collect_before(const Slot& slot, Frontier& before);
  Point take_implied(const Slot& slot);
  Marker take(Slot& slot);

  Published* own(Point marker);
  Published* recorded(Point marker);  ///< own, or withdrawn not long ago
  Published* find(Point marker);      ///< or recorded on another stream, and standing for it
  /** The first marker recorded elsewhere that stands for `point`, and what it stands for there. */
  Published* first_implied(Slot& slot, Point point, Marker& stands_for);
  Published* first_alive(ordering::NumberedRing<ordering::Alias>& aliases, Marker from,
                         Marker& number);
  /** The record's memory goes to and fro: it is left with that of an earlier snapshot. */
  const Published& insert(PendingRecord& record, MarkerToken token);
  /** A marker of the legacy or a blocking stream, with what it implies of the other side. */
  void imply(Point marker, const Published& published);
  /** The number of the newest marker that can be waited for on the stream. */
  Marker newest_waitable(Slot& slot);
  void remove_alias(Point implied);

  void complete(Point marker, std::vector<MarkerToken>& done);
  void complete(const Frontier& frontier, std::vector<MarkerToken>& done);
  void raise_all(std::vector<MarkerToken>& done);
  void raise(Point point, std::vector<MarkerToken>& done);
  void raise_group(Marker epoch, std::vector<MarkerToken>& done);
  /** The stream notices which of its work is complete by the group. */
  void settle(std::uint32_t index, std::vector<MarkerToken>& done);
  void vacate_if_complete(std::uint32_t index);
};

// What most calls ask: an open stream's point, once or twice a request.
inline Ledger::State::Answer Ledger::State::completed_unlocked(Point point) const {
  if (point.marker == 0) return Answer::yes;
  const Slot* slot = slots.find(point.stream.slot);
  if (slot == nullptr) return Answer::ask;
  const std::uint32_t generation = slot->generation;
  if (generation != point.stream.generation) {
    return generation > point.stream.generation ? Answer::yes : Answer::no;
  }
  if (slot->completed >= point.marker) return Answer::yes;
  if (slot->phase != Phase::open || slot->settled < group.completed) return Answer::ask;
  return slot->generation != generation ? Answer::yes : Answer::no;  // vacant while we looked
}

}  // namespace millrace
