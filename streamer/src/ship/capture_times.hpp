#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/device/operation.hpp"

namespace millrace::ship {

/**
 * @brief When the steps of a merged batch were captured, in order.
 *
 * At most `kMost` times are kept. When they become more, each two neighbors become one with the
 * earlier time: a lag that is computed from it is too long by at most 1/64 of the batch's time
 * span.
 */
class CaptureTimes {
 public:
  static constexpr std::size_t kMost = 256;
  struct Entry {
    Nanoseconds at{0};
    std::uint64_t steps = 0;
  };

  void add(Nanoseconds at) {
    if (entries_.size() == kMost) halve();
    // Several steps to an entry, as those before have: entries stay equally far apart.
    if (!entries_.empty() && entries_.back().steps < per_entry_) {
      ++entries_.back().steps;
    } else {
      entries_.push_back({at, 1});
    }
    ++steps_;
  }

  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  /** @brief Of the first; there is one. */
  [[nodiscard]] Nanoseconds oldest() const noexcept { return entries_.front().at; }

 private:
  void halve() {
    for (std::size_t i = 0; i < kMost / 2; ++i) {
      entries_[i] = {entries_[2 * i].at, entries_[2 * i].steps + entries_[2 * i + 1].steps};
    }
    entries_.resize(kMost / 2);
    per_entry_ *= 2;
  }

  std::vector<Entry> entries_;
  std::uint64_t steps_ = 0, per_entry_ = 1;
};

}  // namespace millrace::ship
