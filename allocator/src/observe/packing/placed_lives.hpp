#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "observe/packing/steps.hpp"

namespace millrace::packing {

/** The time from the allocation to the free of an interval, as ranks among all times. */
struct Life {
  std::uint32_t lower;
  std::uint32_t upper;
};

struct Place {
  std::uint64_t offset;
  std::uint64_t end;
};

/** Placed lives by offset, scanned from the lowest for a gap. */
class ByOffset {
 public:
  void insert(const Place& place, const Life& life) {
    if (runs_.empty()) runs_.emplace_back();
    auto run = std::ranges::upper_bound(runs_, place.offset, {}, &Run::first_offset);
    if (run != runs_.begin()) --run;
    const auto at = std::ranges::upper_bound(run->places, place.offset, {}, &Place::offset) -
                    run->places.begin();
    run->places.insert(run->places.begin() + at, place);
    run->lives.insert(run->lives.begin() + at, life);
    if (run->lives.size() > kLongestRun) halve(run);
  }

  [[nodiscard]] std::uint64_t lowest_gap(std::uint64_t bytes, const Life& life,
                                         Steps& steps) const {
    std::uint64_t offset = 0;
    for (const Run& run : runs_) {
      steps.take(run.lives.size());
      for (std::size_t i = 0; i < run.lives.size(); ++i) {
        // Without a branch on `overlap`, which the processor could not predict.
        const Life& other = run.lives[i];
        const Place& place = run.places[i];
        const int overlap =
            static_cast<int>(other.lower < life.upper) & static_cast<int>(life.lower < other.upper);
        const int beyond = static_cast<int>(place.offset >= offset + bytes);
        if ((overlap & beyond) != 0) return offset;
        offset = std::max(offset, overlap != 0 ? place.end : 0);
      }
    }
    return offset;
  }

 private:
  static constexpr std::size_t kLongestRun = 1024;
  struct Run {
    std::vector<Life> lives;
    std::vector<Place> places;

    [[nodiscard]] std::uint64_t first_offset() const {
      return places.empty() ? 0 : places.front().offset;
    }
  };

  void halve(std::vector<Run>::iterator run) {
    const auto half = static_cast<std::ptrdiff_t>(kLongestRun / 2);
    Run second{{run->lives.begin() + half, run->lives.end()},
               {run->places.begin() + half, run->places.end()}};
    run->lives.resize(kLongestRun / 2);
    run->places.resize(kLongestRun / 2);
    runs_.insert(run + 1, std::move(second));
  }

  std::vector<Run> runs_;
};

/** Placed lives by time, to find the few that overlap a given one. */
class ByTime {
 public:
  explicit ByTime(std::span<const Life> lives)
      : lives_{lives}, by_lower_(lives.size()), position_(lives.size()) {
    std::iota(by_lower_.begin(), by_lower_.end(), std::size_t{0});
    std::ranges::stable_sort(by_lower_, {}, [&](std::size_t i) { return lives[i].lower; });
    for (std::size_t at = 0; at < by_lower_.size(); ++at) {
      position_[by_lower_[at]] = at;
      lowers_.push_back(lives[by_lower_[at]].lower);
    }
    for (const Life& life : lives) uppers_.push_back(life.upper);
    std::ranges::sort(uppers_);
    leaves_ = std::bit_ceil(std::max<std::size_t>(lives.size(), 1));
    latest_upper_.assign(2 * leaves_, 0);
  }

  /** Number of lives, placed or not, that overlap this one. */
  [[nodiscard]] std::size_t count(const Life& life) const {
    const auto ended = std::ranges::upper_bound(uppers_, life.lower) - uppers_.begin();
    return begun_before(life.upper) - static_cast<std::size_t>(ended);
  }

  void insert(std::size_t item) {
    for (std::size_t node = leaves_ + position_[item]; node > 0; node /= 2) {
      latest_upper_[node] = std::max(latest_upper_[node], lives_[item].upper);
    }
  }

  template <typename Visit>
  void visit(const Life& life, Visit&& visit) const {
    visit_below(1, leaves_, begun_before(life.upper), life.lower, visit);
  }

 private:
  [[nodiscard]] std::size_t begun_before(std::uint32_t time) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(lowers_, time) - lowers_.begin());
  }

  // Visits the leaves below a node that come before `end` and live after `time`.
  template <typename Visit>
  void visit_below(std::size_t node, std::size_t width, std::size_t end, std::uint32_t time,
                   Visit& visit) const {
    if (end == 0 || latest_upper_[node] <= time) return;
    if (width == 1) return visit(by_lower_[node - leaves_]);
    const std::size_t half = width / 2;
    visit_below(2 * node, half, std::min(end, half), time, visit);
    visit_below(2 * node + 1, half, end > half ? end - half : 0, time, visit);
  }

  std::span<const Life> lives_;
  std::vector<std::size_t> by_lower_;
  std::vector<std::size_t> position_;
  std::vector<std::uint32_t> lowers_;
  std::vector<std::uint32_t> uppers_;
  std::size_t leaves_ = 1;
  std::vector<std::uint32_t> latest_upper_;  // a heap-shaped tree of maxima, leaves by lower
};

}  // namespace millrace::packing
