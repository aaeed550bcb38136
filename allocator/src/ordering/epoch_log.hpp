#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "millrace/ordering/point.hpp"
#include "ordering/steps.hpp"

namespace millrace::ordering {

/**
 * Which number each epoch of the legacy stream took on one blocking stream.
 *
 * Between two records of the stream's own, the number grows by one with each epoch. So one entry a
 * record is enough, and one for all records within an epoch. Searches are O(log n).
 */
class EpochLog {
 public:
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

  /** The next epoch after `epoch` takes `number`. */
  void note(Marker epoch, Marker number) { put({epoch, number, true}); }

  /**
   * Epochs after `epoch` take nothing here. They follow all those up to `published`, and so stand
   * for what that one took.
   */
  void note_left(Marker epoch, Marker published) { put({epoch, number_at(published), false}); }

  /** Later epochs are another legacy stream's, which follows none of those before. */
  void forget_left() {
    if (!empty() && !entries_.back().takes) entries_.back().number = 0;
  }

  /** All up to this number comes before what follows the marker of `epoch`. */
  [[nodiscard]] Marker number_at(Marker epoch) const {
    const std::size_t end = first([&](const Entry& e) { return e.after >= epoch; });
    if (end == begin_) return 0;
    const Entry& entry = entries_[end - 1];
    return entry.number + (entry.takes ? epoch - entry.after - 1 : 0);
  }

  /** The first epoch that takes at least `number`; it may be still to come. 0: none will. */
  [[nodiscard]] Marker first_reaching(Marker number) const {
    if (empty()) return 0;
    const std::size_t end = first([&](const Entry& e) { return number_at(e.after) >= number; });
    const Entry& entry = entries_[std::max(end, begin_ + 1) - 1];
    if (!entry.takes) return 0;
    return entry.after + 1 + (number > entry.number ? number - entry.number : 0);
  }

  /** Forgets what only epochs before `epoch` need. */
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
    Marker after = 0;   ///< holds for later epochs than this, up to the next entry's
    Marker number = 0;  ///< what the first of them takes; all of them stand for, if they take none
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
  std::size_t begin_ = 0;  // entries before it are forgotten
};

}  // namespace millrace::ordering
