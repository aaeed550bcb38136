#include "memory/caching/completions.hpp"

#include <new>
#include <vector>

#include "millrace/device/fault.hpp"
#include "test/memory/parts/parts_rig.hpp"

namespace millrace::test {

TEST_CASE("a block that is held back is free once a poll has seen its uses complete", "[parts]") {
  PartsRig rig{Policy::torch()};
  Block* const block = rig.segment(8 * MiB, rig.main);
  block->points = PointSet{rig.freed(rig.copy)};
  rig.work(rig.copy);
  rig.completions.hold_back(block);
  CHECK(rig.completions.pending().bytes() == 8 * MiB);
  rig.completions.poll(rig.lock);
  CHECK(block->state == BlockState::pending);
  rig.ordered.synchronize();
  rig.completions.poll(rig.lock);
  CHECK(block->state == BlockState::free);
  CHECK(rig.completions.pending().empty());
  CHECK(rig.stock.meter.bytes().active.current == 0);
  CHECK(rig.lock.owns_lock());
}

TEST_CASE("a sweep that throws leaves the other blocks for the next sweep", "[parts]") {
  PartsRig rig{Policy::torch()};
  std::vector<Block*> blocks;
  for (int i = 0; i < 3; ++i) {
    Block* const block = blocks.emplace_back(rig.segment(8 * MiB, rig.main));
    block->points = PointSet{rig.freed(rig.copy)};
    rig.work(rig.copy);
    rig.completions.hold_back(block);
  }
  rig.ordered.synchronize();
  CHECK_THROWS_AS(rig.completions.sweep([](Block*) { throw std::bad_alloc{}; }), std::bad_alloc);
  CHECK(rig.completions.pending().bytes() == 16 * MiB);
  rig.completions.sweep();
  CHECK(blocks[0]->state == BlockState::claimed);  // the caller of `sweep` had it
  CHECK(blocks[1]->state == BlockState::free);
  CHECK(blocks[2]->state == BlockState::free);
  CHECK(rig.completions.pending().empty());
}

TEST_CASE("a draining block is merged with its ready neighbor once its uses are complete",
          "[parts]") {
  PartsRig rig;
  Block* const left = rig.segment(8 * MiB, rig.main);
  Block* const right = rig.stock.heap.split(left, 4 * MiB);
  right->lane = rig.main.id();
  right->points = PointSet{rig.freed(rig.copy)};
  rig.work(rig.copy);
  rig.free_blocks.put(right);
  rig.put(left, rig.main);
  REQUIRE(right->waits == BlockWaits::for_all);
  rig.ordered.synchronize();
  rig.completions.sweep();
  CHECK(left->bytes == 8 * MiB);
  CHECK(rig.stock.shelves.blocks() == 1);
}

TEST_CASE("the host waits for a claimed block, and frees it again if the wait fails", "[parts]") {
  PartsRig rig;
  Block* const block = rig.segment(8 * MiB, rig.main);
  const Point used = rig.freed(rig.copy);
  block->points = PointSet{used};
  rig.work(rig.copy);
  SECTION("the wait succeeds") {
    CHECK(rig.completions.complete_on_host(block, rig.lock));
    CHECK(rig.ordered.ledger().completed(used));
    CHECK(block->state == BlockState::claimed);
  }
  SECTION("the wait fails") {
    FaultInjector faults{rig.device};
    faults.fail_each(Call::synchronize_event, ErrorCode::unknown);
    faults.fail_each(Call::synchronize_device, ErrorCode::unknown);
    CHECK_THROWS_AS(rig.completions.complete_on_host(block, rig.lock), DeviceError);
    CHECK(block->state == BlockState::free);
  }
  CHECK(rig.lock.owns_lock());
}

}  // namespace millrace::test
