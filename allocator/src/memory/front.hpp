#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include "memory/quick_bins.hpp"
#include "memory/tally.hpp"
#include "millrace/memory/statistics.hpp"
#include "ordering/spin_lock.hpp"
#include "ordering/stable_table.hpp"

namespace millrace {

/**
 * @brief The memory that a stream has needed so far, in bytes.
 *
 * A burst is the memory that the stream allocates between two of its markers.
 */
struct Demand {
  Gauge live;
  Marker marker = 0;  // the stream's marker that will end the present burst
  std::size_t burst = 0;
  std::size_t largest_burst = 0;
  std::uint64_t began = 0;             // serial of the newest marker when the burst began
  std::uint64_t previous_began = 0;    // the same for the burst before it
  std::array<std::size_t, 4> peaks{};  // highest live bytes in this burst and the three before it

  /**
   * @brief Counts an allocation.
   * @param next    the next marker of the stream; a new one begins a burst
   * @param newest  returns the serial of the newest marker of all streams
   */
  template <typename NewestMarker>
  void count(std::size_t bytes, Marker next, const NewestMarker& newest) {
    live.add(bytes);
    if (next != marker) {
      burst = 0;
      std::shift_right(peaks.begin(), peaks.end(), 1);
      peaks.front() = 0;
      previous_began = std::exchange(began, newest());
      marker = next;
    }
    burst += bytes;
    peaks.front() = std::max(peaks.front(), live.current);
    largest_burst = std::max(largest_burst, burst);
  }
  void uncount(std::size_t bytes) noexcept { live.subtract(std::min(bytes, live.current)); }
};

/**
 * @brief Serves the usual request of one stream, a size that the stream freed itself, without the
 *        allocator's lock.
 *
 * Fronts never move. A front serves the streams of one slot, one after the other. It shares no
 * cache line with another front, which another thread may use.
 */
class alignas(64) Front {
 public:
  /**
   * @brief Returns the stream that the front serves; invalid: none.
   *
   * It changes only under both the front's lock and the allocator's.
   */
  [[nodiscard]] StreamId stream() const noexcept {
    const std::uint64_t packed = stream_.load(std::memory_order_acquire);
    return {static_cast<std::uint32_t>(packed), static_cast<std::uint32_t>(packed >> 32)};
  }
  void serve(StreamId stream) noexcept {
    stream_.store(std::uint64_t{stream.generation} << 32 | stream.slot, std::memory_order_release);
  }

  SpinLock lock;  // used once two threads have met (Turns)

  // Guarded by the lock that Turns takes for the front.
  QuickBins quick;
  Demand demand;
  Tally tally;          // used once two threads have met; until then all fronts share one
  Tally::Change share;  // of the bytes that the stream owns, not added to the meter yet
  [[nodiscard]] bool has_uncounted() const noexcept { return !share.empty() || !tally.empty(); }
  std::uint64_t next_id = 0, end_id = 0;   // reserved ids for blocks that the front serves
  UseRecord* spare_use_records = nullptr;  // unused records of freed blocks; linked by `next_spare`

  /** @brief Takes out an unused record; nullptr if there is none. */
  [[nodiscard]] UseRecord* take_use_record() noexcept {
    UseRecord* const use_record = spare_use_records;
    if (use_record != nullptr) spare_use_records = use_record->next_spare;
    return use_record;
  }
  void put_use_record(UseRecord* use_record) noexcept {
    use_record->uses.clear();
    use_record->next_spare = std::exchange(spare_use_records, use_record);
  }

  /** @brief The links of a front in a FrontList. */
  struct Hook {
    bool is_listed = false;
    Front* next = nullptr;
  };
  Hook with_small, with_large, with_tally;

 private:
  std::atomic<std::uint64_t> stream_{0};
};

/** @brief Fronts that got something new since the list was last emptied. */
template <Front::Hook Front::*hook>
class FrontList {
 public:
  /** @brief Adds the front unless the list has it. The caller has the front's lock. */
  void add(Front& front) noexcept {
    if (std::exchange((front.*hook).is_listed, true)) return;
    Front* head = first_.load(std::memory_order_relaxed);
    do {
      (front.*hook).next = head;
    } while (!first_.compare_exchange_weak(head, &front, std::memory_order_release,
                                           std::memory_order_relaxed));
  }

  /**
   * @brief Empties the list.
   * @param turns  takes the fronts' locks
   * @param take   called with each front under its lock; may add the front again
   * @param use    called after each `take`, without the front's lock
   *
   * If one of them throws, the fronts that were not taken stay in the list, and so does the one
   * whose `take` threw.
   */
  template <typename Turns, typename Take, typename Use>
  void take_all(Turns& turns, const Take& take, const Use& use) {
    if (first_.load(std::memory_order_relaxed) == nullptr) return;
    Front* rest = first_.exchange(nullptr, std::memory_order_acquire);
    try {
      while (rest != nullptr) {
        Front& front = *rest;
        {
          const auto hold = turns.hold(front);
          (front.*hook).is_listed = false;
          rest = (front.*hook).next;
          take_one(front, take);
        }
        use();
      }
    } catch (...) {
      put_back(rest);
      throw;
    }
  }

  [[nodiscard]] bool any() const noexcept {
    return first_.load(std::memory_order_relaxed) != nullptr;
  }

 private:
  template <typename Take>
  void take_one(Front& front, const Take& take) {
    try {
      take(front);
    } catch (...) {
      add(front);
      throw;
    }
  }
  // Puts fronts back that are linked and marked as listed.
  void put_back(Front* fronts) noexcept {
    if (fronts == nullptr) return;
    Front* last = fronts;
    while ((last->*hook).next != nullptr) last = (last->*hook).next;
    Front* head = first_.load(std::memory_order_relaxed);
    do {
      (last->*hook).next = head;
    } while (!first_.compare_exchange_weak(head, fronts, std::memory_order_release,
                                           std::memory_order_relaxed));
  }

  std::atomic<Front*> first_{nullptr};
};

/** @brief The fronts, by the slot of their streams. */
class Fronts {
 public:
  /** @brief Returns the front that serves `stream` now, or nullptr. Takes no lock. */
  [[nodiscard, gnu::always_inline]] Front* find(StreamId stream) const noexcept {
    Front* const front = fronts_.find(stream.slot);
    return front != nullptr && front->stream() == stream ? front : nullptr;
  }
  /** @brief Returns the front of a slot, whichever stream it serves; makes it if there is none. The
   * caller has the allocator's lock. */
  [[nodiscard]] Front& at(std::uint32_t slot) { return fronts_.grow_to(slot); }

  template <typename Visit>
  void for_each(const Visit& visit) {
    for (std::uint32_t slot = 0; slot < fronts_.size(); ++slot) visit(fronts_[slot]);
  }

 private:
  ordering::StableTable<Front> fronts_;
};

}  // namespace millrace
