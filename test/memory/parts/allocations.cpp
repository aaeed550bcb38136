#include "memory/caching/allocations.hpp"

#include <algorithm>

#include "test/memory/parts/fronts_rig.hpp"

namespace millrace::test {

TEST_CASE("a batch is claimed only if each of its blocks can be claimed", "[parts]") {
  FrontsRig rig;
  Block* const one = rig.live(1 * MiB, rig.main);
  Block* const other = rig.live(1 * MiB, rig.main);
  void* const twice[] = {one->address, other->address, one->address};
  CHECK_THROWS_AS(rig.allocations.claim(twice), std::invalid_argument);
  CHECK(one->state == BlockState::live);
  CHECK(other->state == BlockState::live);
  void* const both[] = {one->address, nullptr, other->address};
  CHECK(rig.allocations.claim(both) == std::vector{one, other});
  CHECK(one->state == BlockState::claimed);
  CHECK_THROWS_AS(rig.allocations.claim("deallocate", one->address), std::invalid_argument);
}

TEST_CASE("a use by another stream is noted once, and a use by the owner is not noted", "[parts]") {
  FrontsRig rig;
  Block* const block = rig.live(1 * MiB, rig.main);
  CHECK_FALSE(rig.allocations.add_use(*block, rig.main));
  CHECK(block->live.uses.by_owner_only());
  CHECK(rig.allocations.add_use(*block, rig.copy));
  CHECK_FALSE(rig.allocations.add_use(*block, rig.copy));
  REQUIRE(block->live.uses.record()->uses.size() == 1);
  CHECK(block->live.uses.record()->uses.begin()->id() == rig.copy.id());
}

TEST_CASE("a block that is transferred has a use by its former owner", "[parts]") {
  FrontsRig rig;
  Block* const block = rig.live(1 * MiB, rig.main);
  rig.allocations.add_use(*block, rig.copy);
  rig.allocations.transfer(*block, rig.copy);
  CHECK(block->live.owner.id() == rig.copy.id());
  REQUIRE(block->live.uses.record()->uses.size() == 1);
  CHECK(block->live.uses.record()->uses.begin()->id() == rig.main.id());
  rig.allocations.transfer(*block, rig.copy);  // copy owns it already
  CHECK(block->live.uses.record()->uses.size() == 1);
}

}  // namespace millrace::test
