#include "millrace/observe/packing.hpp"

#include <bit>
#include <limits>
#include <tuple>

namespace millrace {

namespace detail {

void PlacedItems::insert(PlacedItem item) {
  constexpr std::size_t longest_run = 512;
  if (runs_.empty()) return runs_.push_back({item});
  auto run = std::ranges::upper_bound(runs_, item.offset, {},
                                      [](const auto& items) { return items.front().offset; });
  if (run != runs_.begin()) --run;
  run->insert(std::ranges::upper_bound(*run, item.offset, {}, &PlacedItem::offset), item);
  if (run->size() <= longest_run) return;
  const auto middle = run->begin() + longest_run / 2;
  std::vector<PlacedItem> second_half{middle, run->end()};
  run->erase(middle, run->end());
  runs_.insert(run + 1, std::move(second_half));
}

}  // namespace detail

namespace {

using detail::PlacedItem;

constexpr auto kNever = std::numeric_limits<std::int64_t>::min();

bool overlap(const Interval& a, const Interval& b) {
  return a.lower < b.upper && b.lower < a.upper;
}

/** Finds the placed intervals that live at some time of a given one. */
class LiveIndex {
 public:
  explicit LiveIndex(std::span<const Interval> intervals)
      : intervals_{intervals}, by_lower_(intervals.size()), rank_(intervals.size()) {
    std::iota(by_lower_.begin(), by_lower_.end(), std::size_t{0});
    std::ranges::stable_sort(by_lower_, {}, [&](std::size_t i) { return intervals[i].lower; });
    for (std::size_t rank = 0; rank < by_lower_.size(); ++rank) rank_[by_lower_[rank]] = rank;
    for (const std::size_t index : by_lower_) lowers_.push_back(intervals[index].lower);
    for (const Interval& interval : intervals) uppers_.push_back(interval.upper);
    std::ranges::sort(uppers_);
    leaves_ = std::bit_ceil(std::max<std::size_t>(intervals.size(), 1));
    latest_upper_.assign(2 * leaves_, kNever);
  }

  /** How many intervals, placed or not, live at some time of this one. */
  [[nodiscard]] std::size_t count(const Interval& interval) const {
    const std::size_t begun = begun_before(interval.upper);
    const auto ended = std::ranges::upper_bound(uppers_, interval.lower) - uppers_.begin();
    return begun - std::min(begun, static_cast<std::size_t>(ended));
  }

  void place(std::size_t index) {
    for (std::size_t node = leaves_ + rank_[index]; node > 0; node /= 2) {
      latest_upper_[node] = std::max(latest_upper_[node], intervals_[index].upper);
    }
  }

  template <typename Visit>
  void visit_placed(const Interval& interval, Visit&& visit) const {
    visit_below(1, leaves_, begun_before(interval.upper), interval.lower, visit);
  }

 private:
  [[nodiscard]] std::size_t begun_before(std::int64_t time) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(lowers_, time) - lowers_.begin());
  }

  // Of the `width` leaves below a node, those before `end` that live after `time`.
  template <typename Visit>
  void visit_below(std::size_t node, std::size_t width, std::size_t end, std::int64_t time,
                   Visit& visit) const {
    if (end == 0 || latest_upper_[node] <= time) return;
    if (width == 1) return visit(by_lower_[node - leaves_]);
    const std::size_t half = width / 2;
    visit_below(2 * node, half, std::min(end, half), time, visit);
    visit_below(2 * node + 1, half, end > half ? end - half : 0, time, visit);
  }

  std::span<const Interval> intervals_;
  std::vector<std::size_t> by_lower_;
  std::vector<std::size_t> rank_;
  std::vector<std::int64_t> lowers_;
  std::vector<std::int64_t> uppers_;
  std::size_t leaves_ = 1;
  std::vector<std::int64_t> latest_upper_;  // a heap-shaped tree of maxima, leaves by lower
};

std::vector<std::size_t> by_falling_size(std::span<const Interval> intervals) {
  std::vector<std::size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) {
    const Interval& interval = intervals[i];
    const auto length =
        static_cast<std::uint64_t>(interval.upper) - static_cast<std::uint64_t>(interval.lower);
    return std::tuple{~interval.bytes, ~length, interval.lower};
  };
  std::ranges::stable_sort(order, {}, key);
  return order;
}

std::uint64_t lowest_gap(std::vector<PlacedItem>& around, std::uint64_t bytes) {
  std::ranges::sort(around, {}, &PlacedItem::offset);
  std::uint64_t offset = 0;
  for (const PlacedItem& item : around) {
    if (item.offset >= offset + bytes) break;
    offset = std::max(offset, item.end);
  }
  return offset;
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
  LiveIndex live{intervals};
  detail::PlacedItems placed;
  std::size_t placed_count = 0;
  std::vector<PlacedItem> around;
  for (const std::size_t item : by_falling_size(intervals)) {
    const Interval& interval = intervals[item];
    if (interval.bytes == 0 || interval.lower >= interval.upper) continue;
    const std::size_t neighbours = live.count(interval);
    std::uint64_t offset = 0;
    if (neighbours * static_cast<std::size_t>(std::bit_width(neighbours)) < placed_count) {
      around.clear();
      live.visit_placed(interval, [&](std::size_t other) {
        around.push_back(
            {packing.offsets[other], packing.offsets[other] + intervals[other].bytes, other});
      });
      offset = lowest_gap(around, interval.bytes);
    } else {
      offset = placed.lowest_gap(
          interval.bytes, [&](std::size_t other) { return overlap(interval, intervals[other]); });
    }
    packing.offsets[item] = offset;
    packing.height = std::max(packing.height, offset + interval.bytes);
    placed.insert({offset, offset + interval.bytes, item});
    live.place(item);
    ++placed_count;
  }
  return packing;
}

}  // namespace millrace
