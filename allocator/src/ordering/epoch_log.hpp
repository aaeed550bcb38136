#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "millrace/ordering/point.hpp"
#include "ordering/steps.hpp"

namespace millrace::ordering {

/**
 * Knows which number each epoch of the legacy stream took on one blocking stream.
 *
 * Between two records of the stream's own, the number grows by one with each epoch. One entry for
 * each own record is therefore enough, and one entry for all own records within an epoch. Searches
 * are O(log n).
 */
class EpochLog {
 public:
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

  /** Notes that the next epoch after `epoch` takes `number`. */
  void note(Marker epoch, Marker number) { put({epoch, number, true}); }

  /**
   * Notes that epochs after `epoch` take no number here, because the stream left the group. They
   * are ordered after all epochs up to `published`, and therefore cover the number that `published`
   * took.
   */
  void note_left(Marker epoch, Marker published) { put({epoch, number_at(published), false}); }

  /**
   * Notes that later epochs are those of another legacy stream, which is not ordered after the
   * former one.
   */
  void forget_left() {
    if (!empty() && !entries_.back().takes) entries_.back().number = 0;
  }

  /**
   * Returns the last number that the marker of `epoch` covers on this stream; 0 if it covers none.
   */
  [[nodiscard]] Marker number_at(Marker epoch) const {
    const std::size_t end = first([&](const Entry& e) { return e.after >= epoch; });
    if (end == begin_) return 0;
    const Entry& entry = entries_[end - 1];
    return entry.number + (entry.takes ? epoch - entry.after - 1 : 0);
  }

  /**
   * Returns the first epoch that takes at least `number`; it may not have begun. Returns 0 if no
   * epoch will take it.
   */
  [[nodiscard]] Marker first_reaching(Marker number) const {
    if (empty()) return 0;
    const std::size_t end = first([&](const Entry& e) { return number_at(e.after) >= number; });
    const Entry& entry = entries_[std::max(end, begin_ + 1) - 1];
    if (!entry.takes) return 0;
    return entry.after + 1 + (number > entry.number ? number - entry.number : 0);
  }

  /** Forgets the entries that only epochs before `epoch` need. */
  void forget_before(Marker epoch) {
    while (begin_ + 1 < entries_.size() && entries_[begin_ + 1].after < epoch) ++begin_;
    if (begin_ * 2 <= entries_.size()) return;
    count_steps(entries_.size() - begin_);
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(begin_));
    begin_ = 0;
  }

  void clear() { *this = {}; }

 private:
  struct Entry {
    Marker after = 0;  ///< valid for epochs after this one, up to the next entry's
    /// The number that the first of these epochs takes. If `takes` is false: that all of them
    /// cover.
    Marker number = 0;
    bool takes = false;
  };

  void put(Entry entry) {
    if (!empty() && entries_.back().after == entry.after) {
      entries_.back() = entry;
    } else {
      entries_.push_back(entry);
    }
  }

  template <typename Predicate>
  [[nodiscard]] std::size_t first(Predicate reached) const {
    std::size_t low = begin_;
    std::size_t high = entries_.size();
    while (low < high) {
      count_steps(1);
      const std::size_t middle = low + (high - low) / 2;
      if (reached(entries_[middle])) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  std::vector<Entry> entries_;
  std::size_t begin_ = 0;  // index of the first entry that is not forgotten
};

}  // namespace millrace::ordering
