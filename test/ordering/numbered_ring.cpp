#include "ordering/numbered_ring.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <set>
#include <vector>

#include "test/support/catch.hpp"

namespace millrace::ordering {
namespace {

struct Entry {
  Marker marker = 0;
  int value = 0;
};

std::vector<Marker> numbers(const NumberedRing<Entry>& ring) {
  std::vector<Marker> all;
  for (std::size_t i = 0; i < ring.size(); ++i) all.push_back(ring[i].marker);
  return all;
}

TEST_CASE("a ring agrees with a sorted vector after the same calls") {
  CHECK(rc::check([] {
    NumberedRing<Entry> ring;
    std::vector<Marker> sorted;
    const auto steps = *rc::gen::container<std::vector<std::pair<int, Marker>>>(
        rc::gen::pair(rc::gen::inRange(0, 10), rc::gen::inRange<Marker>(0, 60)));
    for (const auto& [kind, number] : steps) {
      if (kind < 6) {
        ring.insert(number);
        sorted.insert(std::ranges::upper_bound(sorted, number), number);
      } else if (kind < 8 && !sorted.empty()) {
        ring.pop_front();
        sorted.erase(sorted.begin());
      } else if (kind == 8 && !sorted.empty()) {
        const std::size_t at = number % sorted.size();
        ring.erase(at);
        sorted.erase(sorted.begin() + static_cast<std::ptrdiff_t>(at));
      } else if (kind == 9) {
        ring.erase_number(number);
        const auto it = std::ranges::lower_bound(sorted, number);
        if (it != sorted.end() && *it == number) sorted.erase(it);
      }
      RC_ASSERT(numbers(ring) == sorted);
      const auto from = std::ranges::lower_bound(sorted, number) - sorted.begin();
      RC_ASSERT(ring.first_from(number) == static_cast<std::size_t>(from));
      RC_ASSERT((ring.find(number) != nullptr) == std::ranges::binary_search(sorted, number));
    }
  }));
}

TEST_CASE("a ring finds an entry in O(log n) steps, and the newest entries in O(1)") {
  const Marker n = GENERATE(1'000, 100'000);
  NumberedRing<Entry> ring;
  for (Marker i = 1; i <= n; ++i) ring.insert(i);
  const auto steps = [&](Marker number) {
    const std::uint64_t before = steps_of_this_thread;
    CHECK(ring.find(number) != nullptr);
    return steps_of_this_thread - before;
  };
  CHECK(steps(n) <= 3);
  CHECK(steps(n - 1) <= 5);
  for (Marker number = 1; number < n; number += n / 7) CHECK(steps(number) <= 36);
}

TEST_CASE("a ring reuses its memory for passing entries, and frees the memory of a long queue") {
  NumberedRing<Entry> ring;
  std::set<const Entry*> places;
  for (Marker i = 1; i < 400; ++i) {
    places.insert(&ring.insert(i));
    if (ring.size() == 4) ring.pop_front();
  }
  CHECK(places.size() == 4);
  const std::uint64_t before = steps_of_this_thread;
  for (Marker i = 400; i < 100'400; ++i) ring.insert(i);
  while (ring.size() > 1) ring.pop_front();
  CHECK(steps_of_this_thread - before < 6 * 100'000);
  places.clear();
  for (Marker i = 100'400; i < 2'000'000; ++i) {
    ring.insert(i);
    ring.pop_front();
  }
  for (Marker i = 2'000'000; i < 2'000'400; ++i) {
    places.insert(&ring.insert(i));
    ring.pop_front();
  }
  CHECK(places.size() <= 64);
}

TEST_CASE("a ring that fills and empties again and again allocates once") {
  NumberedRing<Entry> ring;
  std::set<const Entry*> places;
  for (Marker i = 0; i < 1024; ++i) ring.insert(i);
  for (Marker i = 1024; i < 2048; ++i) {
    ring.pop_front();
    places.insert(&ring.insert(i));
  }
  while (!ring.empty()) ring.pop_front();
  for (Marker round = 2; round < 100; ++round) {
    for (Marker i = 0; i < 1000; ++i) REQUIRE(places.contains(&ring.insert(round * 1024 + i)));
    while (!ring.empty()) ring.pop_front();
  }
}

}  // namespace
}  // namespace millrace::ordering
