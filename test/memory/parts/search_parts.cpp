// The parts that find a free block for a request, one by one.

#include <algorithm>
#include <random>

#include "test/memory/parts/search_rig.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
TEST_CASE("a lane's best fit is its smallest block that is large enough, then the lowest address",
          "[parts]") {
  std::mt19937_64 random{seed()};
  for (const Policy& policy : {Policy::millrace(), Policy::torch()}) {
    SearchRig rig{policy};
    std::vector<Block*> blocks;
    for (int i = 0; i < 40; ++i) {
      blocks.push_back(rig.free_segment((2 + 2 * (random() % 10)) * MiB, rig.main));
      rig.free_segment(2 * MiB, rig.copy);
    }
    while (!blocks.empty()) {
      const std::size_t bytes = (1 + random() % 20) * MiB;
      const auto best = std::ranges::min_element(blocks, {}, [&](const Block* block) {
        return std::tuple{block->bytes < bytes, block->bytes, block->address};
      });
      Block* const found = rig.own_lane.take(rig.request(bytes, rig.main));
      REQUIRE(found == ((*best)->bytes < bytes ? nullptr : *best));
      if (found != nullptr) blocks.erase(best);
    }
  }
}

TEST_CASE("another stream's block is taken once it is complete, and not carved beyond the limit",
          "[parts]") {
  SearchRig rig;
  Block* const small = rig.free_segment(8 * MiB, rig.copy);
  rig.free_segment(64 * MiB, rig.copy);
  CHECK(rig.reuse.take_ready(rig.request(6 * MiB, rig.main)) == nullptr);
  rig.ordered.mark(rig.copy);
  rig.ordered.synchronize();
  CHECK(rig.reuse.take_ready(rig.request(10 * MiB, rig.main)) == nullptr);  // 64 > 2 * 10 MiB
  CHECK(rig.reuse.take_ready(rig.request(6 * MiB, rig.main)) == small);
  Request pressed = rig.request(10 * MiB, rig.main);
  pressed.pressed = true;
  CHECK(rig.reuse.take_ready(pressed) != nullptr);
}

TEST_CASE("a stream waits for the block whose use was marked earliest", "[parts]") {
  SearchRig rig;
  Block* const first = rig.free_segment(16 * MiB, rig.copy);
  const Point earlier = rig.work(rig.copy);
  Block* const second = rig.free_segment(8 * MiB, rig.copy);
  const Point later = rig.work(rig.copy);
  rig.free_blocks.list_all();
  const Request request = rig.request(8 * MiB, rig.main);
  CHECK(rig.waiting.take(request, 0, rig.lock) == nullptr);
  CHECK(rig.waiting.take(request, OrderedDevice::kTail, rig.lock) == first);
  CHECK(rig.ordered.ledger().ordered(earlier, rig.main.id()));
  CHECK_FALSE(rig.ordered.ledger().ordered(later, rig.main.id()));
  CHECK(rig.waiting.take(request, OrderedDevice::kTail, rig.lock) == second);
  CHECK(rig.ordered.ledger().ordered(later, rig.main.id()));
  CHECK(rig.stock.meter.counts().waits_inserted == 2);
}

TEST_CASE("the smallest run of free neighbors that is large enough is merged", "[parts]") {
  SearchRig rig;
  const auto run = [&](int blocks, std::size_t bytes) {
    Block* const first = rig.segment(static_cast<std::size_t>(blocks) * bytes, rig.main);
    Block* last = first;
    for (int i = 1; i < blocks; ++i) {
      last = rig.stock.heap.split(last, bytes);
      last->lane = rig.main.id();
    }
    // Neighbors are in different lanes, so that they do not merge by themselves.
    for (Block* block = first; block != nullptr; block = block->next) {
      block->lane =
          block == first || block->previous->lane == rig.copy.id() ? rig.main.id() : rig.copy.id();
      block->points = PointSet{rig.freed(rig.main)};
      rig.free_blocks.put(block);
    }
    return first;
  };
  run(4, 8 * MiB);
  Block* const smaller = run(3, 7 * MiB);
  rig.free_blocks.list_all();
  Block* const found = rig.merging.take(rig.request(20 * MiB, rig.main), 64 * MiB);
  CHECK(found == smaller);
  CHECK(found->bytes == 21 * MiB);
  CHECK(found->lane == rig.main.id());
}

TEST_CASE("before memory grows, streams without a marker are marked and polled", "[parts]") {
  SearchRig rig;
  JoinedLanes joined{rig.stock, rig.free_blocks, rig.reuse};
  BeforeGrowth before{rig.stock, rig.completions, rig.upkeep, rig.reuse, rig.merging, joined};
  Block* const block = rig.free_segment(8 * MiB, rig.copy);
  const Marker next = rig.ordered.ledger().next(rig.copy.id());
  CHECK(rig.reuse.take_ready(rig.request(8 * MiB, rig.main)) == nullptr);
  CHECK(before.take(rig.request(8 * MiB, rig.main), rig.lock, false) == nullptr);  // copy is busy
  CHECK(rig.ordered.ledger().next(rig.copy.id()) == next + 1);
  rig.ordered.device().synchronize();
  CHECK(before.take(rig.request(8 * MiB, rig.main), rig.lock, true) == block);
  CHECK(rig.ordered.ledger().next(rig.copy.id()) == next + 1);  // a marker covers the use already
  CHECK(rig.lock.owns_lock());
}

}  // namespace millrace::test
