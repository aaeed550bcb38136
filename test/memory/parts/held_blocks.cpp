// Compares the table of held blocks with a map.
#include "memory/held_blocks.hpp"

#include <deque>
#include <map>
#include <random>
#include <set>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {

TEST_CASE("a lane's held block is found and taken once, by the lane or with all others",
          "[parts]") {
  std::mt19937_64 random{seed()};
  HeldBlocks held;
  std::deque<Block> blocks;
  std::map<std::uint32_t, Block*> model;
  for (int step = 0; step < 5000; ++step) {
    const StreamId lane{static_cast<std::uint32_t>(random() % 40), 1};
    const auto known = model.find(lane.slot);
    Block* const expected = known == model.end() ? nullptr : known->second;
    REQUIRE(held.find(lane) == expected);
    if (random() % 50 == 0) {
      std::set<Block*> all;
      while (Block* const block = held.take_any()) REQUIRE(all.insert(block).second);
      REQUIRE(all.size() == model.size());
      for (const auto& [slot, block] : model) REQUIRE(all.contains(block));
      model.clear();
    } else if (expected != nullptr) {
      REQUIRE(held.take(lane) == expected);
      REQUIRE(held.take(lane) == nullptr);
      model.erase(known);
    } else {
      held.make_room(lane);
      held.put(lane, model[lane.slot] = &blocks.emplace_back());
    }
  }
}

}  // namespace millrace::test
