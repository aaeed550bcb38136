#include "observe/packing/lowest_fit.hpp"

#include <algorithm>

namespace millrace::packing {

namespace {

// The cost of finding an overlapping life by time and sorting it, in lives looked at by offset.
constexpr std::size_t kCostOfOneFound = 64;

}  // namespace

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

Place LowestFit::put(std::size_t item, std::uint64_t bytes, Steps& steps) {
  const Life& life = lives_[item];
  const bool few_overlap = by_time_.count(life) * kCostOfOneFound < placed_;
  const std::uint64_t offset =
      few_overlap ? gap_between_few(bytes, life, steps) : by_offset_.lowest_gap(bytes, life, steps);
  return put_at(item, {offset, offset + bytes});
}

Place LowestFit::put_at(std::size_t item, const Place& place) {
  places_[item] = place;
  by_offset_.insert(place, lives_[item]);
  by_time_.insert(item);
  ++placed_;
  return place;
}

std::uint64_t LowestFit::gap_between_few(std::uint64_t bytes, const Life& life, Steps& steps) {
  few_.clear();
  by_time_.visit(life, [&](std::size_t other) { few_.push_back(places_[other]); });
  steps.take(few_.size() * kCostOfOneFound);
  std::ranges::sort(few_, {}, &Place::offset);
  std::uint64_t offset = 0;
  for (const Place& place : few_) {
    if (place.offset >= offset + bytes) break;
    offset = std::max(offset, place.end);
  }
  return offset;
}

LowestPacking pack_lowest(std::span<const Interval> intervals, std::span<const std::size_t> order,
                          Steps& steps) {
  LowestPacking packed{.packing = {.offsets = std::vector<std::uint64_t>(intervals.size())},
                       .placed = 0};
  std::vector<Interval> ordered;
  ordered.reserve(order.size());
  for (const std::size_t item : order) ordered.push_back(intervals[item]);
  const auto lives = ranked(ordered);
  LowestFit fit{lives};
  for (; packed.placed < order.size() && !steps.spent(); ++packed.placed) {
    const Place place = fit.put(packed.placed, ordered[packed.placed].bytes, steps);
    packed.packing.offsets[order[packed.placed]] = place.offset;
    packed.packing.height = std::max(packed.packing.height, place.end);
  }
  return packed;
}

}  // namespace millrace::packing
