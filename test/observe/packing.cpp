#include "millrace/observe/packing.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "millrace/observe/trace/read_trace.hpp"
#include "test/support/catch.hpp"
#include "test/support/data.hpp"

namespace {

using millrace::best_pack;
using millrace::greedy_pack;
using millrace::Interval;
using millrace::max_load;
using millrace::Packing;
using millrace::quick_pack;

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

/// @return "" if no two blocks that live at the same time overlap and the height is correct
std::string fault_of(const std::vector<Interval>& intervals, const Packing& packing) {
  if (packing.offsets.size() != intervals.size()) return "a block has no offset";
  std::uint64_t height = 0;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    const std::uint64_t end = packing.offsets[i] + intervals[i].bytes;
    height = std::max(height, intervals[i].bytes == 0 ? 0 : end);
    for (std::size_t j = 0; j < i; ++j) {
      const bool apart = end <= packing.offsets[j] ||
                         packing.offsets[j] + intervals[j].bytes <= packing.offsets[i];
      if (apart || !overlap(intervals[i], intervals[j])) continue;
      if (intervals[i].bytes > 0 && intervals[j].bytes > 0) return "two blocks overlap";
    }
  }
  return height == packing.height ? "" : "the height is another";
}

void check_valid(const std::vector<Interval>& intervals, const Packing& packing) {
  RC_ASSERT(fault_of(intervals, packing) == "");
}

/// Places the largest blocks first, each at the lowest offset where it overlaps no block that lives
/// at the same time.
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

double ratio(std::uint64_t height, std::uint64_t load) {
  return static_cast<double>(height) / static_cast<double>(load);
}

}  // namespace

TEST_CASE("the load is the most bytes live at one moment, and an interval excludes its end") {
  CHECK(max_load({}) == 0);
  CHECK(max_load(std::vector<Interval>{{0, 5, 10}, {5, 9, 20}}) == 20);
  CHECK(max_load(std::vector<Interval>{{0, 6, 10}, {5, 9, 20}, {8, 12, 15}}) == 35);
  CHECK(max_load(std::vector<Interval>{{3, 3, 10}, {4, 2, 50}}) == 0);
}

TEST_CASE("greedy packing puts the largest block lowest and fills the holes") {
  const std::vector<Interval> intervals{{0, 10, 4}, {0, 4, 6}, {4, 10, 5}, {0, 10, 1}};
  const Packing packing = greedy_pack(intervals);
  CHECK(packing.offsets == std::vector<std::uint64_t>{6, 0, 0, 5 + 5});
  CHECK(packing.height == 11);
}

TEST_CASE("a packing keeps blocks that live at the same time apart") {
  CHECK(rc::check("few large and many small, crowded and sparse", [] {
    const auto times = *rc::gen::element<std::int64_t>(5, 50, 2000);
    const auto intervals = some_intervals(times, 100, 200);
    const Packing packing = greedy_pack(intervals);
    check_valid(intervals, packing);
    RC_ASSERT(packing.height >= max_load(intervals));
  }));
}

TEST_CASE("each block lies at the lowest offset that the blocks placed before it leave") {
  CHECK(rc::check("distinct sizes, so that the order is known", [] {
    auto intervals = some_intervals(60, 5, 100);
    for (std::size_t i = 0; i < intervals.size(); ++i)
      intervals[i].bytes = intervals[i].bytes * 1000 + i + 1;
    RC_ASSERT(greedy_pack(intervals).offsets == plain_pack(intervals));
  }));
}

/// Tries all orders of the intervals, places each interval as low as possible, and returns the
/// lowest height.
std::uint64_t height_by_trial(const std::vector<Interval>& intervals) {
  std::vector<std::size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::uint64_t lowest = UINT64_MAX;
  do {
    std::vector<std::uint64_t> offsets(intervals.size());
    std::uint64_t height = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Interval& interval = intervals[order[i]];
      std::uint64_t& offset = offsets[order[i]];
      for (std::size_t j = 0; j < i;) {
        const Interval& other = intervals[order[j]];
        const std::uint64_t begin = offsets[order[j]];
        const bool moved = overlap(interval, other) && offset < begin + other.bytes &&
                           begin < offset + interval.bytes;
        if (moved) offset = begin + other.bytes;
        j = moved ? 0 : j + 1;
      }
      height = std::max(height, interval.bytes == 0 ? 0 : offset + interval.bytes);
    }
    lowest = std::min(lowest, height);
  } while (std::ranges::next_permutation(order).found);
  return intervals.empty() ? 0 : lowest;
}

TEST_CASE("the best packing is valid, and lies between the load and the simple packings") {
  CHECK(rc::check("few large and many small, crowded and sparse", [] {
    const auto times = *rc::gen::element<std::int64_t>(5, 50, 2000);
    const auto intervals = some_intervals(times, 100, 200);
    const Packing best = best_pack(intervals, {.steps = 3'000'000});
    check_valid(intervals, best);
    const std::uint64_t load = max_load(intervals);
    RC_ASSERT(load <= best.lower_bound);
    RC_ASSERT(best.lower_bound <= best.height);
    const Packing quick = quick_pack(intervals);
    check_valid(intervals, quick);
    RC_ASSERT(best.height <= quick.height);
    RC_ASSERT(quick.height <= greedy_pack(intervals).height);
  }));
}

TEST_CASE("the best packing of few blocks is the lowest one, and marked as optimal") {
  CHECK(rc::check("all orders of up to six blocks", [] {
    const auto intervals = some_intervals(8, 6, 7);
    const Packing best = best_pack(intervals);
    check_valid(intervals, best);
    RC_ASSERT(best.height == height_by_trial(intervals));
    RC_ASSERT(best.optimal());
  }));
}

TEST_CASE("equal numbers of steps give equal packings, and any number a valid one") {
  CHECK(rc::check("any budget", [] {
    const auto intervals = some_intervals(50, 100, 100);
    const auto steps = *rc::gen::inRange<std::uint64_t>(0, 2'000'000);
    const Packing first = best_pack(intervals, {.steps = steps});
    check_valid(intervals, first);
    RC_ASSERT(first.offsets == best_pack(intervals, {.steps = steps}).offsets);
  }));
}

TEST_CASE("the hard instances of MiniMalloc are packed within their capacity") {
  const auto data = millrace::test::data_folder();
  if (!data) SKIP("no sample data (MILLRACE_DATA)");
  for (const char name : std::string{"ABCDEF"}) {
    const auto log = millrace::trace::read_trace(*data / "traces/minimalloc" /
                                                 (name + std::string{".1048576.csv"}));
    const auto intervals = lifetimes(log);
    const Packing best = best_pack(intervals, {.steps = 400'000'000});
    INFO(name << ": " << ratio(best.height, max_load(intervals)) << " of the load");
    CHECK(fault_of(intervals, best).empty());
    CHECK(best.height <= 1048576);
    CHECK((name == 'D' || best.height == max_load(intervals)));
    // A simple packing is more than 10% higher, so the search is worth its time.
    CHECK(ratio(quick_pack(intervals).height, best.height) > 1.1);
  }
}

TEST_CASE("the height of packed traces of deep learning is their load") {
  const auto data = millrace::test::data_folder();
  if (!data) SKIP("no sample data (MILLRACE_DATA)");
  for (const char* const file :
       {"idealloc/resnet50.csv", "pytorch/medium_128_inference.pickle",
        "pytorch/medium_512_inference.pickle", "pytorch/medium_128_training.pickle"}) {
    const auto intervals = lifetimes(millrace::trace::read_trace(*data / "traces" / file));
    const Packing best = best_pack(intervals);
    INFO(file << ": " << ratio(best.height, max_load(intervals)) << " of the load");
    CHECK(fault_of(intervals, best).empty());
    CHECK(best.height == max_load(intervals));
  }
}
