#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/device/operation.hpp"

namespace millrace::ship {

/**
 * @brief The times at which the steps of a merged batch were captured, in order.
 *
 * Keeps at most `kMost` times. At the limit, each pair of neighbors becomes one entry with the
 * earlier time. A lag that is computed from an entry is therefore too long by at most 1/64 of the
 * batch's time span.
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
    // After `halve`, new entries also take several steps: all entries cover equally many.
    if (!entries_.empty() && entries_.back().steps < per_entry_) {
      ++entries_.back().steps;
    } else {
      entries_.push_back({at, 1});
    }
    ++steps_;
  }

  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  /** @brief Returns the time of the first step. At least one step must exist. */
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
