#include "memory/caching/held_frees.hpp"

#include "test/memory/parts/fronts_rig.hpp"

namespace millrace::test {
namespace {

/// Two live blocks of a stream, and free memory after them.
struct HeldRig : FrontsRig {
  HeldRig() : FrontsRig(Policy::torch()) { put(rest_of_large, main); }
  Block* const first = live(4 * MiB, main);
  Block* const second = live(4 * MiB, main);

  bool hold(Block* block) {
    block->state = BlockState::claimed;
    return held.hold(block, main);
  }
};

}  // namespace

TEST_CASE("a held block is given out again unchanged if the best fit begins there", "[parts]") {
  HeldRig rig;
  REQUIRE(rig.hold(rig.second));
  CHECK(rig.second->state == BlockState::quick);
  Request request = rig.request(4 * MiB, rig.main);
  CHECK(rig.held.take(request) == rig.second);
  CHECK(rig.second->state == BlockState::live);
  CHECK(rig.stock.meter.bytes().allocated.current == 8 * MiB);
}

TEST_CASE("a held block that does not fit a request is merged", "[parts]") {
  HeldRig rig;
  REQUIRE(rig.hold(rig.second));
  CHECK(rig.held.take(rig.request(3 * MiB, rig.main)) == nullptr);
  CHECK(rig.second->state == BlockState::free);
  CHECK(rig.second->bytes == 60 * MiB);
  CHECK(rig.held.take(rig.request(4 * MiB, rig.main)) == nullptr);  // none is held
}

TEST_CASE("a freed block with a free neighbor is not held, and the block held before is free",
          "[parts]") {
  HeldRig rig;
  REQUIRE(rig.hold(rig.first));
  REQUIRE(rig.hold(rig.second) == false);  // the free block before it would be merged with it
  CHECK(rig.first->state == BlockState::free);
  rig.held.shelve();
  CHECK(rig.stock.shelves.blocks() == 2);
}

TEST_CASE("a block that a poll has found complete is held unchanged", "[parts]") {
  HeldRig rig;
  rig.second->state = BlockState::claimed;
  rig.stock.heap.live().erase(rig.second);
  const Point own = rig.freed(rig.main);
  rig.second->points.set(own);
  rig.second->points.join(rig.freed(rig.copy));                // complete, as a poll found
  CHECK_FALSE(rig.held.take(rig.request(4 * MiB, rig.main)));  // makes the lane's entry

  rig.held.put_completed(rig.second);
  CHECK(rig.second->state == BlockState::quick);
  CHECK(rig.second->points == PointSet{own});
  CHECK(rig.held.take(rig.request(4 * MiB, rig.main)) == rig.second);
}

TEST_CASE("a block that a poll has found complete is free if it must be merged", "[parts]") {
  HeldRig rig;
  CHECK_FALSE(rig.held.take(rig.request(4 * MiB, rig.main)));
  REQUIRE(rig.hold(rig.first));
  rig.second->state = BlockState::claimed;
  rig.stock.heap.live().erase(rig.second);
  rig.held.put_completed(rig.second);  // the block before it is no longer held
  CHECK(rig.first->state == BlockState::free);
  CHECK(rig.first->bytes == 64 * MiB);
}

TEST_CASE("no block is held if lanes mix", "[parts]") {
  FrontsRig rig;
  Block* const block = rig.live(4 * MiB, rig.main);
  block->state = BlockState::claimed;
  CHECK_FALSE(rig.held.hold(block, rig.main));
  CHECK(rig.held.take(rig.request(4 * MiB, rig.main)) == nullptr);
}

}  // namespace millrace::test
