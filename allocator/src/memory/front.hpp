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

/** @brief What a stream needs at once, as seen so far. */
struct Demand {
  Gauge live;
  Marker marker = 0;  // the burst is before it
  std::size_t burst = 0;
  std::size_t largest_burst = 0;
  std::uint64_t began = 0;             // the newest marker when the burst began, as a serial
  std::uint64_t previous_began = 0;    // when the burst before it did
  std::array<std::size_t, 4> peaks{};  // of live bytes, in this burst and in those before it

  /** @param next  the next marker of the stream */
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
 * @brief What a thread needs to serve the usual request of one stream, under a lock of its own.
 *
 * Fronts stay where they are; one serves the streams of a slot one after the other. None shares a
 * cache line with another, which may be another thread's.
 */
class alignas(64) Front {
 public:
  /** @brief Changes under both this lock and the allocator's. Valid, or of no stream yet. */
  [[nodiscard]] StreamId stream() const noexcept {
    const std::uint64_t packed = stream_.load(std::memory_order_acquire);
    return {static_cast<std::uint32_t>(packed), static_cast<std::uint32_t>(packed >> 32)};
  }
  void serve(StreamId stream) noexcept {
    stream_.store(std::uint64_t{stream.generation} << 32 | stream.slot, std::memory_order_release);
  }

  SpinLock lock;  // once threads have met: see Turns

  // Under the lock that Turns has for it.
  QuickBins quick;
  Demand demand;
  Tally tally;          // while several threads call at once
  Tally::Change share;  // of the stream, that the meter does not know of
  [[nodiscard]] bool has_uncounted() const noexcept { return !share.empty() || !tally.empty(); }
  std::uint64_t next_id = 0, end_id = 0;  // of blocks that are given out here
  Company* spare_company = nullptr;       // of blocks that were freed here; linked by `next_spare`

  /** @brief One that belongs to no allocation, taken out; nullptr: there is none. */
  [[nodiscard]] Company* take_company() noexcept {
    Company* const company = spare_company;
    if (company != nullptr) spare_company = company->next_spare;
    return company;
  }
  void put_company(Company* company) noexcept {
    company->uses.clear();
    company->next_spare = std::exchange(spare_company, company);
  }

  /** @brief Its place in one of the lists. */
  struct Hook {
    bool is_listed = false;
    Front* next = nullptr;
  };
  Hook with_small, with_large, with_tally;

 private:
  std::atomic<std::uint64_t> stream_{0};
};

/** @brief Fronts that have something new since the last look. */
template <Front::Hook Front::*hook>
class FrontList {
 public:
  /** @brief Under the front's lock. */
  void add(Front& front) noexcept {
    if (std::exchange((front.*hook).is_listed, true)) return;
    Front* head = first_.load(std::memory_order_relaxed);
    do {
      (front.*hook).next = head;
    } while (!first_.compare_exchange_weak(head, &front, std::memory_order_release,
                                           std::memory_order_relaxed));
  }

  /**
   * @brief Empties the list. Of each, `take` from it under its lock, which may add it again, then
   *        `use` what was taken.
   * @param turns  has the fronts' locks
   */
  template <typename Turns, typename Take, typename Use>
  void take_all(Turns& turns, const Take& take, const Use& use) {
    if (first_.load(std::memory_order_relaxed) == nullptr) return;
    for (Front* front = first_.exchange(nullptr, std::memory_order_acquire); front != nullptr;) {
      Front* next = nullptr;
      {
        const auto hold = turns.hold(*front);
        (front->*hook).is_listed = false;
        next = (front->*hook).next;
        take(*front);
      }
      use();
      front = next;
    }
  }

  [[nodiscard]] bool any() const noexcept {
    return first_.load(std::memory_order_relaxed) != nullptr;
  }

 private:
  std::atomic<Front*> first_{nullptr};
};

/** @brief The fronts, by slot. */
class Fronts {
 public:
  /** @brief Takes no lock. nullptr: none serves it (any more). */
  [[nodiscard, gnu::always_inline]] Front* find(StreamId stream) const noexcept {
    Front* const front = fronts_.find(stream.slot);
    return front != nullptr && front->stream() == stream ? front : nullptr;
  }
  /** @brief The front of the slot, for any stream. Under the allocator's lock. */
  [[nodiscard]] Front& at(std::uint32_t slot) { return fronts_.grow_to(slot); }

  template <typename Visit>
  void for_each(const Visit& visit) {
    for (std::uint32_t slot = 0; slot < fronts_.size(); ++slot) visit(fronts_[slot]);
  }

 private:
  ordering::StableTable<Front> fronts_;
};

}  // namespace millrace
