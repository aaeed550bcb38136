#include "millrace/observe/packing.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "observe/packing/lowest_fit.hpp"
#include "observe/packing/online_fit.hpp"
#include "observe/packing/search_packing.hpp"
#include "observe/packing/steps.hpp"

namespace millrace {

namespace {

using Items = std::vector<std::size_t>;
using packing::Outcome;
using packing::Steps;

std::uint64_t length(const Interval& interval) {
  return static_cast<std::uint64_t>(interval.upper) - static_cast<std::uint64_t>(interval.lower);
}

double area(const Interval& interval) {
  return static_cast<double>(length(interval)) * static_cast<double>(interval.bytes);
}

// With fewer steps for the first order of first fit, others are tried.
constexpr std::uint64_t kMostForOtherOrders = 100'000'000;

/** Items that need a place, in the order of the intervals. */
Items items_of(std::span<const Interval> intervals) {
  Items items;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].bytes > 0 && intervals[i].lower < intervals[i].upper) items.push_back(i);
  }
  return items;
}

template <typename Key>
Items sorted_by(Key key, std::span<const Interval> intervals, Items items) {
  std::ranges::stable_sort(items, std::ranges::less{},
                           [&](std::size_t i) { return key(intervals[i]); });
  return items;
}

/** The largest first; of equal ones the longer, then the earlier. */
Items by_falling_size(std::span<const Interval> intervals, Items items) {
  return sorted_by(
      [](const Interval& interval) {
        return std::tuple{~interval.bytes, ~length(interval), interval.lower};
      },
      intervals, std::move(items));
}

/** Finds the lowest packing that the steps allow. */
class BestPacking {
 public:
  BestPacking(std::span<const Interval> intervals, std::uint64_t steps)
      : intervals_{intervals}, items_{items_of(intervals)}, steps_{steps} {
    best_.offsets.resize(intervals.size());
    best_.lower_bound = max_load(intervals);
    best_.height = items_.empty() ? 0 : std::numeric_limits<std::uint64_t>::max();
  }

  Packing quick() && {
    pack_quickly();
    return std::move(best_);
  }

  Packing best() && {
    if (pack_quickly() && !done() && sums_fit()) {
      const std::uint64_t load = best_.lower_bound;
      try_height(load, Steps{steps_.left() / 5 * 3});
      narrow(load);
    }
    return std::move(best_);
  }

 private:
  [[nodiscard]] bool done() const { return best_.height == best_.lower_bound; }

  /** Whether sums of the bytes of any blocks are far from wrapping around. */
  [[nodiscard]] bool sums_fit() const {
    constexpr std::uint64_t most = std::uint64_t{1} << 62;
    std::uint64_t sum = 0;
    for (const std::size_t i : items_) {
      if (intervals_[i].bytes > most - sum) return false;
      sum += intervals_[i].bytes;
    }
    return true;
  }

  void keep(Packing found) {
    if (found.height >= best_.height) return;
    best_.height = found.height;
    best_.offsets = std::move(found.offsets);
  }

  /** @return whether first fit was within its steps */
  bool pack_quickly() {
    keep(packing::pack_online(intervals_, items_));
    if (done()) return true;
    const std::uint64_t count = items_.size();
    const std::uint64_t n_log_n = 32 * count * std::bit_width(count);
    const std::uint64_t before = steps_.left();
    if (!pack(by_falling_size(intervals_, items_), 500'000'000 + n_log_n)) return false;
    const std::uint64_t taken = before - steps_.left();  // other orders will take about as many
    const auto also = [&](auto key) {
      if (done() || taken > kMostForOtherOrders || taken > steps_.left()) return;
      pack(sorted_by(key, intervals_, items_), 2 * kMostForOtherOrders);
    };
    also([](const Interval& interval) { return ~interval.bytes; });
    also([](const Interval& interval) { return -area(interval); });
    also([](const Interval& interval) { return std::pair{~length(interval), ~interval.bytes}; });
    return true;
  }

  /** First fit in an order. What the steps do not suffice for lies above, by online best fit.
   * @return whether they sufficed */
  bool pack(const Items& order, std::uint64_t most_steps) {
    Steps steps{std::min(most_steps, steps_.left())};
    const std::uint64_t before = steps.left();
    auto [packing, placed] = packing::pack_lowest(intervals_, order, steps);
    steps_.take(before - steps.left());
    const auto rest = std::span{order}.subspan(placed);
    const Packing above = packing::pack_online(intervals_, rest);
    for (const std::size_t item : rest)
      packing.offsets[item] = packing.height + above.offsets[item];
    packing.height += above.height;
    keep(std::move(packing));
    return rest.empty();
  }

  /** Searches for a packing of a given height. @return whether one was found within the steps */
  Outcome try_height(std::uint64_t height, Steps steps) {
    const std::uint64_t before = steps.left();
    auto found = packing::search_packing(intervals_, height, steps);
    steps_.take(before - steps.left());
    if (found.outcome == Outcome::impossible) best_.lower_bound = height + 1;
    if (found.outcome != Outcome::found) return found.outcome;
    Packing packing{.offsets = std::move(found.offsets), .height = 0};
    for (const std::size_t i : items_) {
      packing.height = std::max(packing.height, packing.offsets[i] + intervals_[i].bytes);
    }
    keep(std::move(packing));
    return Outcome::found;
  }

  /** Halves what lies between a height that was tried in vain and the best one. */
  void narrow(std::uint64_t failed) {
    while (!done() && !steps_.spent() && best_.height - failed > failed / 1000 + 1) {
      const std::uint64_t middle = failed + (best_.height - failed) / 2;
      if (try_height(middle, steps_.part(3)) != Outcome::found) failed = middle;
    }
  }

  std::span<const Interval> intervals_;
  Items items_;
  Steps steps_;
  Packing best_;
};

}  // namespace

std::uint64_t max_load(std::span<const Interval> intervals) {
  struct Change {
    std::int64_t time;
    bool begins;
    std::uint64_t bytes;
  };
  std::vector<Change> changes;
  changes.reserve(2 * intervals.size());
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
  Steps steps{std::numeric_limits<std::uint64_t>::max()};
  const Items order = by_falling_size(intervals, items_of(intervals));
  Packing packing = packing::pack_lowest(intervals, order, steps).packing;
  packing.lower_bound = max_load(intervals);
  return packing;
}

Packing quick_pack(std::span<const Interval> intervals, const PackingOptions& options) {
  return BestPacking{intervals, options.steps}.quick();
}

Packing best_pack(std::span<const Interval> intervals, const PackingOptions& options) {
  return BestPacking{intervals, options.steps}.best();
}

}  // namespace millrace
