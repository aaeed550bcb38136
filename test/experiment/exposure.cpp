#include "millrace/experiment/exposure.hpp"

#include <rapidcheck.h>

#include <vector>

#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::experiment;

namespace {

TimeSpan from_to(int begin, int end) { return {Nanoseconds{begin}, Nanoseconds{end}}; }

// Counts one unit of time after another.
Exposure counted(const std::vector<TimeSpan>& copies, const std::vector<TimeSpan>& main,
                 TimeSpan window) {
  const auto runs = [](const std::vector<TimeSpan>& intervals, Nanoseconds at) {
    for (const TimeSpan& piece : intervals) {
      if (piece.begin <= at && at < piece.end) return true;
    }
    return false;
  };
  Exposure sum;
  for (Nanoseconds at = window.begin; at < window.end; ++at) {
    if (!runs(copies, at)) continue;
    ++sum.copies;
    if (!runs(main, at)) ++sum.exposed;
  }
  return sum;
}

std::vector<TimeSpan> draw_intervals() {
  std::vector<TimeSpan> intervals;
  int at = 0;
  for (const int length : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 6))) {
    const int begin = at + *rc::gen::inRange(0, 4);
    intervals.push_back(from_to(begin, begin + length));
    at = begin + *rc::gen::inRange(0, length + 1);  // later ones may overlap
  }
  return intervals;
}

}  // namespace

TEST_CASE("a copy during computation is hidden, a copy outside of it is exposed") {
  const Exposure half = exposure({from_to(0, 10)}, {from_to(5, 20)}, from_to(0, 20));
  CHECK(half.copies == Nanoseconds{10});
  CHECK(half.exposed == Nanoseconds{5});
}

TEST_CASE("operations outside the window do not count") {
  const Exposure none = exposure({from_to(0, 10)}, {}, from_to(10, 20));
  CHECK(none.copies == Nanoseconds{0});
  CHECK(none.exposed == Nanoseconds{0});
}

TEST_CASE("exposure agrees with counting every unit of time") {
  CHECK(rc::check([] {
    const std::vector<TimeSpan> copies = draw_intervals();
    const std::vector<TimeSpan> main = draw_intervals();
    const int begin = *rc::gen::inRange(0, 20);
    const TimeSpan window = from_to(begin, begin + *rc::gen::inRange(0, 60));
    const Exposure fast = exposure(copies, main, window);
    const Exposure slow = counted(copies, main, window);
    RC_ASSERT(fast.copies == slow.copies);
    RC_ASSERT(fast.exposed == slow.exposed);
  }));
}
