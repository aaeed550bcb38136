#include "millrace/observe/packing.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "millrace/observe/trace/read_trace.hpp"
#include "test/support/catch.hpp"
#include "test/support/data.hpp"

namespace {

using millrace::greedy_pack;
using millrace::Interval;
using millrace::max_load;
using millrace::Packing;

bool overlap(const Interval& a, const Interval& b) {
  return a.lower < b.upper && b.lower < a.upper;
}

std::vector<Interval> some_intervals(std::int64_t times, std::uint64_t most_bytes,
                                     std::size_t most) {
  const auto count = *rc::gen::inRange<std::size_t>(0, most);
  return *rc::gen::container<std::vector<Interval>>(
      count, rc::gen::map(rc::gen::tuple(rc::gen::inRange<std::int64_t>(0, times),
                                         rc::gen::inRange<std::int64_t>(1, times),
                                         rc::gen::inRange<std::uint64_t>(0, most_bytes)),
                          [](const auto& t) {
                            const auto [lower, length, bytes] = t;
                            return Interval{lower, lower + length, bytes};
                          }));
}

void check_valid(const std::vector<Interval>& intervals, const Packing& packing) {
  RC_ASSERT(packing.offsets.size() == intervals.size());
  std::uint64_t height = 0;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    const std::uint64_t end = packing.offsets[i] + intervals[i].bytes;
    height = std::max(height, intervals[i].bytes == 0 ? 0 : end);
    for (std::size_t j = 0; j < i; ++j) {
      const bool apart = end <= packing.offsets[j] ||
                         packing.offsets[j] + intervals[j].bytes <= packing.offsets[i];
      RC_ASSERT(apart || !overlap(intervals[i], intervals[j]) || intervals[i].bytes == 0 ||
                intervals[j].bytes == 0);
    }
  }
  RC_ASSERT(height == packing.height);
}

/// Largest first, each at the lowest offset at which it overlaps none that lives at the same time.
std::vector<std::uint64_t> plain_pack(const std::vector<Interval>& intervals) {
  std::vector<std::size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::ranges::greater{},
                    [&](std::size_t i) { return intervals[i].bytes; });
  std::vector<std::uint64_t> offsets(intervals.size());
  for (auto item = order.begin(); item != order.end(); ++item) {
    std::uint64_t& offset = offsets[*item];
    const auto in_the_way = [&](std::size_t other) {
      return overlap(intervals[*item], intervals[other]) &&
             offset < offsets[other] + intervals[other].bytes &&
             offsets[other] < offset + intervals[*item].bytes;
    };
    for (auto other = order.begin(); other != item;) {
      const bool moved = in_the_way(*other);
      if (moved) offset = offsets[*other] + intervals[*other].bytes;
      other = moved ? order.begin() : other + 1;
    }
  }
  return offsets;
}

/// The simplest online best fit: one growing address range, merged holes, no rounding.
std::uint64_t online_best_fit(const std::vector<Interval>& intervals) {
  struct Step {
    std::int64_t time;
    bool begins;
    std::size_t index;
  };
  std::vector<Step> steps;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    steps.push_back({intervals[i].lower, true, i});
    steps.push_back({intervals[i].upper, false, i});
  }
  std::ranges::stable_sort(steps, {}, [](const Step& step) {
    return std::pair{step.time, step.begins};
  });
  std::map<std::uint64_t, std::uint64_t> used;  // offset to end
  std::vector<std::uint64_t> offsets(intervals.size());
  std::uint64_t top = 0;
  for (const Step& step : steps) {
    if (!step.begins) {
      used.erase(offsets[step.index]);
      continue;
    }
    const std::uint64_t bytes = intervals[step.index].bytes;
    std::uint64_t best = 0;
    std::uint64_t best_room = UINT64_MAX;
    std::uint64_t at = 0;
    for (const auto& [offset, end] : used) {
      if (offset - at >= bytes && offset - at < best_room) {
        best = at;
        best_room = offset - at;
      }
      at = end;
    }
    if (best_room == UINT64_MAX || (top > at && top - at >= bytes && top - at < best_room))
      best = at;
    offsets[step.index] = best;
    used[best] = best + bytes;
    top = std::max(top, best + bytes);
  }
  return top;
}

double ratio(std::uint64_t height, std::uint64_t load) {
  return static_cast<double>(height) / static_cast<double>(load);
}

}  // namespace

TEST_CASE("the load is the most that lives at one moment, and a life ends before its last moment") {
  CHECK(max_load({}) == 0);
  CHECK(max_load(std::vector<Interval>{{0, 5, 10}, {5, 9, 20}}) == 20);
  CHECK(max_load(std::vector<Interval>{{0, 6, 10}, {5, 9, 20}, {8, 12, 15}}) == 35);
  CHECK(max_load(std::vector<Interval>{{3, 3, 10}, {4, 2, 50}}) == 0);
}

TEST_CASE("greedy packing puts the largest lowest and fills the holes") {
  const std::vector<Interval> intervals{{0, 10, 4}, {0, 4, 6}, {4, 10, 5}, {0, 10, 1}};
  const Packing packing = greedy_pack(intervals);
  CHECK(packing.offsets == std::vector<std::uint64_t>{6, 0, 0, 5 + 5});
  CHECK(packing.height == 11);
}

TEST_CASE("a packing keeps apart what lives at the same time, whatever the intervals") {
  CHECK(rc::check("few large and many small, crowded and sparse", [] {
    const auto times = *rc::gen::element<std::int64_t>(5, 50, 2000);
    const auto intervals = some_intervals(times, 100, 200);
    const Packing packing = greedy_pack(intervals);
    check_valid(intervals, packing);
    RC_ASSERT(packing.height >= max_load(intervals));
  }));
}

TEST_CASE("each block lies at the lowest offset that those placed before it leave") {
  CHECK(rc::check("distinct sizes, so that the order is known", [] {
    auto intervals = some_intervals(60, 5, 100);
    for (std::size_t i = 0; i < intervals.size(); ++i)
      intervals[i].bytes = intervals[i].bytes * 1000 + i + 1;
    RC_ASSERT(greedy_pack(intervals).offsets == plain_pack(intervals));
  }));
}

TEST_CASE(
    "the hard instances of MiniMalloc take a third more than their load, by greedy and online") {
  const auto data = millrace::test::data_folder();
  if (!data) SKIP("no sample data (MILLRACE_DATA)");
  for (const char name : std::string{"ABCDEF"}) {
    const auto log = millrace::trace::read_trace(*data / "traces/minimalloc" /
                                                 (name + std::string{".1048576.csv"}));
    const auto intervals = lifetimes(log);
    const std::uint64_t load = max_load(intervals);
    INFO(name << " greedy " << ratio(greedy_pack(intervals).height, load) << " online "
              << ratio(online_best_fit(intervals), load));
    CHECK(load <= 1048576);
    CHECK(ratio(greedy_pack(intervals).height, load) > 1.2);
    CHECK(ratio(greedy_pack(intervals).height, load) < 1.42);
    CHECK(ratio(online_best_fit(intervals), load) > 1.16);
    CHECK(ratio(online_best_fit(intervals), load) < 2.23);
  }
}

TEST_CASE("traces of deep learning are packed within two percent of their load") {
  const auto data = millrace::test::data_folder();
  if (!data) SKIP("no sample data (MILLRACE_DATA)");
  for (const char* const file :
       {"idealloc/resnet50.csv", "pytorch/medium_128_inference.pickle",
        "pytorch/medium_512_inference.pickle", "pytorch/medium_128_training.pickle"}) {
    const auto intervals = lifetimes(millrace::trace::read_trace(*data / "traces" / file));
    const std::uint64_t load = max_load(intervals);
    INFO(file << " greedy " << ratio(greedy_pack(intervals).height, load) << " online "
              << ratio(online_best_fit(intervals), load));
    CHECK(ratio(greedy_pack(intervals).height, load) < 1.02);
    CHECK(ratio(online_best_fit(intervals), load) < 1.12);
  }
}
