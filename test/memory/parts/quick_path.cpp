#include "memory/caching/quick_path_inline.hpp"
#include "test/memory/parts/fronts_rig.hpp"

namespace millrace::test {

TEST_CASE("a block that a stream's front keeps serves only that stream", "[parts]") {
  FrontsRig rig;
  Block* const block = rig.live(64 * KiB, rig.main);
  Block* const other = rig.live(64 * KiB, rig.copy);
  static_cast<void>(other);
  rig.live(1 * MiB, rig.main);  // bins keep a part of the highest live bytes
  for (int i = 0; i < 20; ++i) rig.live(1 * MiB, rig.main);
  rig.lock.unlock();
  REQUIRE(rig.quick.keep(block->address, nullptr) == Kept::yes);
  CHECK(block->state == BlockState::quick);
  CHECK(rig.quick.keep(block->address, nullptr) == Kept::no);  // it is not live
  CHECK(rig.quick.take(rig.request(64 * KiB, rig.copy), 64 * KiB).block == nullptr);
  CHECK(rig.quick.take(rig.request(64 * KiB, rig.main), 64 * KiB).block == block);
  CHECK(block->state == BlockState::live);
}

TEST_CASE("paused fronts neither serve nor keep blocks", "[parts]") {
  FrontsRig rig;
  for (int i = 0; i < 20; ++i) rig.live(1 * MiB, rig.main);
  Block* const kept = rig.live(64 * KiB, rig.main);
  Block* const live = rig.live(64 * KiB, rig.main);
  REQUIRE(rig.quick.keep(kept->address, nullptr) == Kept::yes);
  {
    const FrontUpkeep::Paused paused{rig.upkeep};
    CHECK(rig.quick.keep(live->address, nullptr) == Kept::ask);
    CHECK(rig.quick.take(rig.request(64 * KiB, rig.main), 64 * KiB).ask);
    CHECK(rig.stock.meter.bytes().allocated.current == 20 * MiB + 64 * KiB);
  }
  CHECK(rig.quick.take(rig.request(64 * KiB, rig.main), 64 * KiB).block == kept);
}

TEST_CASE("an emptied front makes its blocks visible to all streams", "[parts]") {
  FrontsRig rig;
  for (int i = 0; i < 20; ++i) rig.live(1 * MiB, rig.main);
  Block* const small = rig.live(64 * KiB, rig.main);
  REQUIRE(rig.quick.keep(small->address, nullptr) == Kept::yes);
  rig.upkeep.empty_small(128 * KiB);
  CHECK(small->state == BlockState::quick);
  rig.upkeep.empty();
  CHECK(small->state == BlockState::free);
  CHECK(rig.stock.heap.live().find(small->address) == nullptr);
}

TEST_CASE("a small request that its lane cannot serve releases the larger blocks of its front",
          "[parts]") {
  FrontsRig rig;
  for (int i = 0; i < 20; ++i) rig.live(1 * MiB, rig.main);
  Block* const near = rig.live(64 * KiB, rig.main);
  Block* const tiny = rig.live(512, rig.main);
  Request request = rig.request(128 * KiB, rig.main);
  request.front = rig.stock.fronts.find(rig.main.id());
  REQUIRE(request.front != nullptr);
  CHECK(!rig.upkeep.empty_near(request));  // the front has no small block
  REQUIRE(rig.quick.keep(near->address, nullptr) == Kept::yes);
  REQUIRE(rig.quick.keep(tiny->address, nullptr) == Kept::yes);
  CHECK(rig.upkeep.empty_near(request));
  CHECK(near->state == BlockState::free);
  CHECK(tiny->state == BlockState::quick);
  CHECK(!rig.upkeep.empty_near(request));
}

TEST_CASE("a miss of a stream with little memory releases the small blocks of its front",
          "[parts]") {
  FrontsRig rig;
  rig.live(1 * MiB, rig.main);
  Block* const kept = rig.live(64 * KiB, rig.main);
  const Request request = rig.request(128 * KiB, rig.main);
  Front* const front = rig.stock.fronts.find(rig.main.id());
  REQUIRE(front != nullptr);
  rig.upkeep.look_further(*front, request);  // the front has no small block
  REQUIRE(rig.quick.keep(kept->address, nullptr) == Kept::yes);
  rig.upkeep.look_further(*front, request);
  CHECK(kept->state == BlockState::free);
}

TEST_CASE("a trim lowers a stream's demand to its live bytes", "[parts]") {
  FrontsRig rig;
  rig.live(3 * MiB, rig.main);
  Block* const freed = rig.live(2 * MiB, rig.main);
  rig.upkeep.count_in(*freed, false);
  REQUIRE(rig.upkeep.demand_of(rig.main.id()).live.peak == 5 * MiB);
  rig.upkeep.forget_demands();
  CHECK(rig.upkeep.demand_of(rig.main.id()).live.current == 3 * MiB);
  CHECK(rig.upkeep.demand_of(rig.main.id()).live.peak == 3 * MiB);
  CHECK(rig.upkeep.demand_of(rig.main.id()).largest_burst == 0);
}

TEST_CASE("a block with a use waits in the front until its stream is ordered after the use",
          "[parts]") {
  FrontsRig rig;
  for (int i = 0; i < 20; ++i) rig.live(1 * MiB, rig.main);
  Block* const block = rig.live(64 * KiB, rig.main);
  rig.allocations.add_use(*block, rig.copy);
  rig.device.launch(fixed_kernel("work", std::chrono::milliseconds{5}), rig.copy.handle());
  const Point used = rig.freed(rig.copy);
  rig.lock.unlock();
  REQUIRE(rig.quick.keep(block->address, nullptr) == Kept::yes);
  CHECK(rig.ordered.ledger().next(rig.copy.id()) > used.marker);  // `keep` has marked copy
  CHECK(rig.quick.take(rig.request(64 * KiB, rig.main), 64 * KiB).block == nullptr);
  REQUIRE(rig.ordered.wait_for(rig.main, used));
  CHECK(rig.quick.take(rig.request(64 * KiB, rig.main), 64 * KiB).block == block);
}

}  // namespace millrace::test
