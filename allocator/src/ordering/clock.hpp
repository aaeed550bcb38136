#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::ordering {

/** A vector clock: how many operations of each actor happen before now. */
class Clock {
 public:
  [[nodiscard]] std::uint64_t at(std::size_t actor) const noexcept {
    return actor < counts_.size() ? counts_[actor] : 0;
  }

  void set(std::size_t actor, std::uint64_t count) {
    if (actor >= counts_.size()) counts_.resize(actor + 1);
    counts_[actor] = count;
  }

  void join(const Clock& other) {
    if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size());
    for (std::size_t i = 0; i < other.counts_.size(); ++i) {
      counts_[i] = std::max(counts_[i], other.counts_[i]);
    }
  }

  void meet(const Clock& other) {
    if (counts_.size() > other.counts_.size()) counts_.resize(other.counts_.size());
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      counts_[i] = std::min(counts_[i], other.counts_[i]);
    }
  }

 private:
  std::vector<std::uint64_t> counts_;
};

}  // namespace millrace::ordering
