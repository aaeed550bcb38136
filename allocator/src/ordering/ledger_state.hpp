#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "millrace/ordering/adaptive_mutex.hpp"
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

  mutable AdaptiveMutex mutex;  // guards all members that are not atomic
  ordering::StableTable<Slot> slots;
  ordering::BlockingGroup group{slots};
  ordering::ProgressLog progress;        // kGroup stands for all blocking streams
  std::atomic<std::uint64_t> waits{0};   // number of changes that may order more
  std::atomic<std::uint64_t> serial{0};  // number of published markers
  std::atomic<std::size_t> outstanding_markers{0};

  std::vector<std::uint32_t> vacant;
  SlotSet with_markers;
  std::size_t tracked = 0;
  Frontier reached;                   // reused by `complete`, so that it allocates nothing
  std::vector<MarkerToken> returned;  // from slots that settled late, for the next `complete`

  // The following functions need no lock.
  Slot* tenant(StreamId stream) const {
    Slot* slot = slots.find(stream.slot);
    return slot != nullptr && slot->generation == stream.generation ? slot : nullptr;
  }
  /**
   * Returns `marker`, but at most a closed stream's last marker, because nothing follows that one.
   */
  Marker within(const Slot& slot, Marker marker) const {
    return slot.phase == Phase::closed ? std::min(marker, slot.count.next(group.epoch)) : marker;
  }
  enum class Answer : unsigned char { no, yes, ask };
  /**
   * `ask`: the mutex is needed, because the stream is closed or the group may have completed more.
   */
  Answer completed_unlocked(Point point) const;
  /** Returns whether the point is complete as far as its slot knows. The group may know more. */
  bool known_complete(Point point) const;
  /**
   * Returns whether an epoch of the group may have completed a point that its slot does not know
   * of.
   */
  bool may_be_complete(Point point) const;
  /** Decides `ordered` for an open stream, as far as shared frontiers can decide it. */
  ordering::SharedFrontier::Answer ordered_unlocked(Point point, StreamId user) const;

  // The caller holds the mutex.
  Slot& open_slot(StreamId stream) const {
    Slot* const slot = tenant(stream);
    if (slot == nullptr || slot->phase != Phase::open) refuse_closed();
    return *slot;
  }
  [[noreturn]] static void refuse_closed();
  // Members that others read without the mutex, and that change only under it.
  void note_wait() {
    waits.store(waits.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  void count_outstanding(int by) {
    outstanding_markers.store(
        outstanding_markers.load(std::memory_order_relaxed) + static_cast<std::size_t>(by),
        std::memory_order_relaxed);
  }
  void declare(std::uint32_t index, StreamTraits traits);
  bool completed(Point point);
  bool covers(const Frontier& frontier, Point point) const;
  bool ordered(Point point, const Slot& user);
  void drop_completed(Frontier& frontier);
  Frontier beyond_last(const Frontier& frontier) const;
  /** Replaces the point of the group by points of its streams. */
  Frontier spelled_out(Frontier frontier);
  /** Orders the stream's next operation after `after`. */
  void order(std::uint32_t index, const Frontier& after);
  /**
   * Does the same for a wait, which the legacy stream's next operation follows too if the stream is
   * blocking.
   */
  void wait(std::uint32_t index, const Frontier& after);
  /** Sets `before` to what an operation enqueued on the stream now is ordered after, by markers. */
  void collect_before(const Slot& slot, Frontier& before);
  /** Takes the number that a marker on `slot` covers on the other side (legacy or blocking). */
  Point take_implied(const Slot& slot);
  /** Returns whether the legacy stream and `slot` order each other's work. */
  [[nodiscard]] bool meets_legacy(const Slot& slot) const noexcept {
    return slot.traits.legacy || (slot.traits.blocking && group.legacy != SlotSet::kNone);
  }
  /** Takes the next number of the stream itself. */
  Marker take(Slot& slot) {
    const Marker taken = slot.count.take(group.epoch);
    if (slot.count.counts_epochs()) {
      slot.epochs.forget_before(group.completed);
      slot.epochs.note(group.epoch, taken + 1);
    }
    return taken;
  }

  Published* own(Point marker);
  Published* recorded(Point marker);  ///< an outstanding marker, or one that was withdrawn recently
  Published* find(Point marker);  ///< also finds a marker of another stream that covers this number
  /**
   * Returns the first marker recorded elsewhere that covers `point`, and sets `stands_for` to the
   * number that it covers on the point's stream.
   */
  Published* first_implied(Slot& slot, Point point, Marker& stands_for);
  Published* first_alive(ordering::NumberedRing<ordering::Alias>& aliases, Marker from,
                         Marker& number);
  /**
   * Adds a marker of the stream. Swaps memory with `record`, so that neither allocates: the record
   * gets the memory of an earlier snapshot.
   */
  const Published& insert(Slot& slot, PendingRecord& record, MarkerToken token);
  /** Makes the marker of a legacy or blocking stream count on the other side too. */
  void imply(Point marker, const Published& published);
  /** Returns the number of the newest marker of the stream for which others can wait. */
  Marker newest_waitable(Slot& slot);
  void remove_alias(Point implied);

  void complete(Point marker, std::vector<MarkerToken>& done);
  void complete(const Frontier& frontier, std::vector<MarkerToken>& done);
  void raise_all(std::vector<MarkerToken>& done);
  /** Appends the tokens of `returned` to `done`. */
  void return_settled(std::vector<MarkerToken>& done) {
    if (returned.empty()) [[likely]]
      return;
    done.insert(done.end(), returned.begin(), returned.end());
    returned.clear();
  }
  void raise(Point point, std::vector<MarkerToken>& done);
  void raise_group(Marker epoch, std::vector<MarkerToken>& done);
  /** Raises the stream's `completed` to what the group's complete epochs cover. */
  void settle(std::uint32_t index, std::vector<MarkerToken>& done);
  void vacate_if_complete(std::uint32_t index);
};

// The usual question, once or twice for each request: a point of an open stream.
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
  return slot->generation != generation ? Answer::yes : Answer::no;  // became vacant meanwhile
}

}  // namespace millrace
