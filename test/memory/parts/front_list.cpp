#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <utility>
#include <vector>

#include "memory/front.hpp"
#include "memory/turns.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

using SmallList = FrontList<&Front::with_small>;

std::vector<Front*> taken_from(SmallList& list, Turns& turns) {
  std::vector<Front*> taken;
  list.take_all(
      turns, [&](Front& front) { taken.push_back(&front); }, [] {});
  return taken;
}

}  // namespace

TEST_CASE("fronts that an exception left in a list are taken later", "[parts]") {
  AdaptiveMutex mutex;
  Meter meter;
  Turns turns{mutex, meter};
  const bool own_locks = GENERATE(false, true);
  if (own_locks) turns.give_own_locks();
  const bool take_throws = GENERATE(false, true);
  const std::size_t at = GENERATE(0U, 1U, 2U);
  CAPTURE(own_locks, take_throws, at);
  Front first, second, third;
  SmallList list;
  for (Front* const front : {&first, &second, &third}) list.add(*front);
  std::vector<Front*> taken;
  std::size_t calls = 0;
  const auto fail = [&](bool here) {
    if (here && calls++ == at) throw std::runtime_error{"no memory"};
  };
  CHECK_THROWS_AS(list.take_all(
                      turns,
                      [&](Front& front) {
                        fail(take_throws);
                        taken.push_back(&front);
                      },
                      [&] { fail(!take_throws); }),
                  std::runtime_error);
  CHECK(taken.size() == at + (take_throws ? 0 : 1));
  list.add(third);  // it is in the list once
  for (Front* const front : taken_from(list, turns)) taken.push_back(front);
  const std::size_t twice = std::ranges::count(taken, &third) - 1;
  CHECK(taken.size() == 3 + twice);
  CHECK(twice == (at > 0 || !take_throws ? 1 : 0));
  for (Front* const front : {&first, &second, &third}) {
    CHECK(std::ranges::find(taken, front) != taken.end());
  }
  CHECK(!list.any());
  CHECK(taken_from(list, turns).empty());
}

}  // namespace millrace::test
