#include "millrace/observe/packing.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <tuple>
#include <utility>

namespace millrace {

namespace {

/** A life, with its times replaced by their ranks. */
struct Life {
  std::uint32_t lower;
  std::uint32_t upper;
};

struct Place {
  std::uint64_t offset;
  std::uint64_t end;
};

std::vector<Life> ranked(std::span<const Interval> intervals) {
  std::vector<std::int64_t> times;
  for (const Interval& interval : intervals) {
    times.push_back(interval.lower);
    times.push_back(interval.upper);
  }
  std::ranges::sort(times);
  const auto rank = [&](std::int64_t time) {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(times, time) - times.begin());
  };
  std::vector<Life> lives;
  for (const Interval& interval : intervals)
    lives.push_back({rank(interval.lower), rank(interval.upper)});
  return lives;
}

/** What is placed, by offset, to be gone through for the lives that overlap a given one. */
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

  [[nodiscard]] std::uint64_t lowest_gap(std::uint64_t bytes, const Life& life) const {
    std::uint64_t offset = 0;
    for (const Run& run : runs_) {
      for (std::size_t i = 0; i < run.lives.size(); ++i) {
        // Without a branch on `overlap`, which nobody could foretell.
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

/** What is placed, by time, to find the few lives that overlap a given one. */
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

  /** How many lives, placed or not, overlap this one. */
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

  // Of the `width` leaves below a node, those before `end` that live after `time`.
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

/** Places lives one after the other, each as low as it can be. */
class LowestFit {
 public:
  explicit LowestFit(std::span<const Life> lives)
      : lives_{lives}, places_(lives.size()), by_time_{lives} {}

  Place put(std::size_t item, std::uint64_t bytes) {
    const Life& life = lives_[item];
    const bool few_overlap = by_time_.count(life) * kCostOfOneFound < placed_;
    const std::uint64_t offset =
        few_overlap ? gap_between_few(bytes, life) : by_offset_.lowest_gap(bytes, life);
    places_[item] = {offset, offset + bytes};
    by_offset_.insert(places_[item], life);
    by_time_.insert(item);
    ++placed_;
    return places_[item];
  }

 private:
  // Finding an overlapping life by time and sorting it, against looking at one by offset.
  static constexpr std::size_t kCostOfOneFound = 64;

  std::uint64_t gap_between_few(std::uint64_t bytes, const Life& life) {
    few_.clear();
    by_time_.visit(life, [&](std::size_t other) { few_.push_back(places_[other]); });
    std::ranges::sort(few_, {}, &Place::offset);
    std::uint64_t offset = 0;
    for (const Place& place : few_) {
      if (place.offset >= offset + bytes) break;
      offset = std::max(offset, place.end);
    }
    return offset;
  }

  std::span<const Life> lives_;
  std::vector<Place> places_;
  ByTime by_time_;
  ByOffset by_offset_;
  std::size_t placed_ = 0;
  std::vector<Place> few_;
};

// Items that need a place, the largest first.
std::vector<std::size_t> by_falling_size(std::span<const Interval> intervals) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].bytes > 0 && intervals[i].lower < intervals[i].upper) order.push_back(i);
  }
  const auto key = [&](std::size_t i) {
    const Interval& interval = intervals[i];
    const auto length =
        static_cast<std::uint64_t>(interval.upper) - static_cast<std::uint64_t>(interval.lower);
    return std::tuple{~interval.bytes, ~length, interval.lower};
  };
  std::ranges::stable_sort(order, {}, key);
  return order;
}

}  // namespace

std::uint64_t max_load(std::span<const Interval> intervals) {
  struct Change {
    std::int64_t time;
    bool begins;
    std::uint64_t bytes;
  };
  std::vector<Change> changes;
  for (const auto& [lower, upper, bytes] : intervals) {
    if (lower >= upper) continue;
    changes.push_back({lower, true, bytes});
    changes.push_back({upper, false, bytes});
  }
  std::ranges::sort(changes, {}, [](const Change& c) { return std::tuple{c.time, c.begins}; });
  std::uint64_t load = 0;
  std::uint64_t most = 0;
  for (const Change& change : changes) {
    load = change.begins ? load + change.bytes : load - change.bytes;
    most = std::max(most, load);
  }
  return most;
}

Packing greedy_pack(std::span<const Interval> intervals) {
  Packing packing{.offsets = std::vector<std::uint64_t>(intervals.size()), .height = 0};
  const auto order = by_falling_size(intervals);
  std::vector<Interval> ordered;
  ordered.reserve(order.size());
  for (const std::size_t item : order) ordered.push_back(intervals[item]);
  const auto lives = ranked(ordered);
  LowestFit fit{lives};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Place place = fit.put(i, ordered[i].bytes);
    packing.offsets[order[i]] = place.offset;
    packing.height = std::max(packing.height, place.end);
  }
  return packing;
}

}  // namespace millrace
