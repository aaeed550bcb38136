#include "ordering/slot_set.hpp"

#include <rapidcheck.h>

#include <set>
#include <vector>

#include "test/support/catch.hpp"

namespace millrace::ordering {
namespace {

std::vector<std::uint32_t> visited(const SlotSet& slots) {
  std::vector<std::uint32_t> all;
  for (auto i = slots.next(0); i != SlotSet::kNone; i = slots.next(i + 1)) all.push_back(i);
  return all;
}

TEST_CASE("a slot set visits the slots that were inserted and not erased, in order") {
  CHECK(rc::check([] {
    SlotSet slots;
    std::set<std::uint32_t> expected;
    const auto steps = *rc::gen::container<std::vector<std::pair<bool, std::uint32_t>>>(
        rc::gen::pair(rc::gen::arbitrary<bool>(), rc::gen::inRange<std::uint32_t>(0, 10'000)));
    for (const auto& [insert, slot] : steps) {
      insert ? slots.insert(slot) : slots.erase(slot);
      insert ? static_cast<void>(expected.insert(slot)) : static_cast<void>(expected.erase(slot));
      RC_ASSERT((slots.next(slot) == slot) == insert);
    }
    const std::vector<std::uint32_t> in_order(expected.begin(), expected.end());
    RC_ASSERT(visited(slots) == in_order);
  }));
}

TEST_CASE("two slots far apart are visited in a few steps") {
  SlotSet slots;
  slots.insert(1);
  slots.insert(1'000'000);
  const std::uint64_t before = steps_of_this_thread;
  CHECK(visited(slots) == std::vector<std::uint32_t>{1, 1'000'000});
  CHECK(steps_of_this_thread - before < 300);
}

}  // namespace
}  // namespace millrace::ordering
