#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "millrace/ordering/point.hpp"
#include "ordering/steps.hpp"

namespace millrace::ordering {

/**
 * A queue of entries that are sorted by their `marker`.
 *
 * The place of a removed entry keeps its memory, and a later entry reuses it: a stream whose
 * markers complete steadily allocates nothing. Adding and removing at the ends is O(1) amortized. A
 * search is O(log n), and O(1) for one of the newest entries.
 */
template <typename Entry>
class NumberedRing {
 public:
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /** Returns the entry `nth` places after the oldest one. */
  [[nodiscard]] Entry& operator[](std::size_t nth) { return entries_[place(nth)]; }
  [[nodiscard]] const Entry& operator[](std::size_t nth) const { return entries_[place(nth)]; }

  /**
   * Returns the place of the first entry that is not before `marker`; `size()` if all are before
   * it.
   */
  [[nodiscard]] std::size_t first_from(Marker marker) const {
    // Searches from the new end in growing steps, then by bisection between the last two: callers
    // mostly look for a new entry.
    std::size_t high = size_;
    std::size_t low = 0;
    for (std::size_t step = 1; high > 0; step *= 2) {
      count_steps(1);
      const std::size_t at = high > step ? high - step : 0;
      if ((*this)[at].marker < marker) {
        low = at + 1;
        break;
      }
      high = at;
    }
    while (low < high) {
      count_steps(1);
      const std::size_t middle = low + (high - low) / 2;
      if ((*this)[middle].marker < marker) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return high;
  }

  /** Returns the entry with this number; nullptr if none has it. */
  [[nodiscard]] Entry* find(Marker marker) {
    const std::size_t at = first_from(marker);
    return at < size_ && (*this)[at].marker == marker ? &(*this)[at] : nullptr;
  }

  /**
   * Adds an entry after all entries up to this number. Its other members are those of a removed
   * entry; the caller overwrites them.
   */
  Entry& insert(Marker marker) {
    if (size_ > mask_ || entries_.empty()) resize(std::max(kLeast, 2 * size_));
    std::size_t at = size_++;
    for (; at > 0 && (*this)[at - 1].marker > marker; --at) {
      count_steps(1);
      std::swap((*this)[at], (*this)[at - 1]);
    }
    count_steps(1);
    (*this)[at].marker = marker;
    return (*this)[at];
  }

  void pop_front() {
    count_steps(1);
    head_ = place(1);
    --size_;
    if (mask_ >= kKept) shrink_if_calm();
  }

  /** Removes an entry by moving the entries between it and the nearer end. */
  void erase(std::size_t nth) {
    if (nth < size_ / 2) {
      for (; nth > 0; --nth, count_steps(1)) std::swap((*this)[nth], (*this)[nth - 1]);
      return pop_front();
    }
    for (; nth + 1 < size_; ++nth, count_steps(1)) std::swap((*this)[nth], (*this)[nth + 1]);
    --size_;
  }

  /** Removes the entry with this number, if it exists. */
  void erase_number(Marker marker) {
    const std::size_t at = first_from(marker);
    if (at < size_ && (*this)[at].marker == marker) erase(at);
  }

  /** Removes all entries, for the next stream of the slot. Gives much memory back. */
  void clear() {
    head_ = size_ = calm_ = 0;
    if (entries_.size() <= kLeast) return;
    std::vector<Entry>{}.swap(entries_);
    mask_ = 0;
  }

 private:
  static constexpr std::size_t kLeast = 4;
  static constexpr std::size_t kKept = 64;  // a ring of at most this size does not shrink

  [[nodiscard]] std::size_t place(std::size_t nth) const noexcept { return (head_ + nth) & mask_; }

  // A ring that fills and empties again and again keeps its size. It shrinks only after it was
  // nearly empty for a multiple of its size in removals.
  void shrink_if_calm() {
    constexpr std::size_t kTimes = 4;
    if (size_ >= entries_.size() / 8) {
      calm_ = 0;
    } else if (++calm_ > kTimes * entries_.size()) {
      resize(entries_.size() / 2);
    }
  }

  void resize(std::size_t capacity) {
    std::vector<Entry> entries(capacity);
    const std::size_t kept = std::min(capacity, entries_.size());  // removed ones too
    for (std::size_t i = 0; i < kept; ++i) entries[i] = std::move((*this)[i]);
    count_steps(kept);
    entries_ = std::move(entries);
    mask_ = capacity - 1;
    head_ = 0;
    calm_ = 0;
  }

  std::vector<Entry> entries_;  // their number is a power of two, or 0
  std::size_t mask_ = 0;        // that number minus 1; 0 if there are none
  std::size_t head_ = 0;
  std::size_t size_ = 0;
  std::size_t calm_ = 0;  // removals since more than an eighth was in use
};

}  // namespace millrace::ordering
