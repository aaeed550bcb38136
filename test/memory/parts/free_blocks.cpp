#include "memory/caching/free_blocks.hpp"

#include <algorithm>
#include <random>

#include "test/memory/parts/parts_rig.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

/// Checks what must hold after any sequence of puts, claims and splits.
void check_free(PartsRig& rig) {
  rig.stock.heap.check();
  std::size_t free_blocks = 0, draining = 0;
  for (const auto& [base, segment] : rig.stock.heap.segments()) {
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      if (block->state != BlockState::free) continue;
      ++free_blocks;
      REQUIRE(rig.stock.shelves.holds(block));
      const bool drains = rig.stock.lanes_mix && block->waits == BlockWaits::for_all;
      if (drains) draining += block->bytes;
      // Free neighbors that one lane may use have been merged.
      if (!drains) REQUIRE_FALSE(FreeBlocks::mergeable(block->next, block->lane));
    }
  }
  REQUIRE(rig.stock.shelves.blocks() == free_blocks);
  REQUIRE(rig.stock.meter.bytes().active.current == draining);
}

void run_frees(const Policy& policy, std::mt19937_64& random) {
  PartsRig rig{policy};
  const Stream* const streams[] = {&rig.main, &rig.copy};
  std::vector<Block*> claimed;
  for (int i = 0; i < 4; ++i) claimed.push_back(rig.segment(64 * MiB, *streams[i % 2]));
  for (int step = 0; step < 1000; ++step) {
    const Stream& stream = *streams[random() % 2];
    if (!claimed.empty() && random() % 2 == 0) {
      std::swap(claimed[random() % claimed.size()], claimed.back());
      Block* const block = claimed.back();
      if (block->bytes >= 2 * MiB && random() % 2 == 0) {
        claimed.insert(claimed.begin(), rig.stock.heap.split(block, block->bytes / 2));
        claimed.front()->lane = block->lane;
        claimed.front()->points.assign(block->points);
      }
      claimed.pop_back();
      block->points = PointSet{Point{block->lane, rig.ordered.ledger().next(block->lane)}};
      if (random() % 3 == 0) block->points.join(rig.freed(stream));
      rig.free_blocks.put(block);
    } else if (Lane* const lane = rig.stock.shelves.find(stream.id())) {
      Shelf& shelf = lane->shelf(false);
      Block* block = shelf.ready.first(1);
      if (block == nullptr || random() % 3 == 0) block = shelf.draining.first(1);
      if (block == nullptr) continue;
      rig.free_blocks.claim(block);
      REQUIRE(block->state == BlockState::claimed);
      claimed.push_back(block);
    }
    if (random() % 8 == 0) rig.work(stream);
    if (random() % 8 == 0) rig.free_blocks.settle();
    if (random() % 16 == 0) rig.ordered.synchronize();
    if (random() % 4 == 0) rig.completions.poll(rig.lock);
    rig.completions.sweep();
    check_free(rig);
  }
}

}  // namespace

TEST_CASE("free neighbors that one lane may use are merged, and each block is on its shelf",
          "[parts]") {
  std::mt19937_64 random{seed()};
  SECTION("lanes mix") { run_frees(Policy::millrace(), random); }
  SECTION("only complete blocks are used") { run_frees(Policy::pinned(), random); }
  SECTION("lanes never mix") { run_frees(Policy::torch(), random); }
}

TEST_CASE("a block that was merged on demand has all points of its neighbors", "[parts]") {
  PartsRig rig;
  Block* const left = rig.segment(64 * MiB, rig.main);
  Block* const right = rig.stock.heap.split(left, 32 * MiB);
  right->lane = rig.main.id();
  rig.put(left, rig.main);
  right->points = PointSet{rig.freed(rig.copy)};
  rig.free_blocks.put(right);
  rig.free_blocks.merge_until(left, 64 * MiB);
  CHECK(left->bytes == 64 * MiB);
  CHECK(left->state == BlockState::claimed);
  CHECK(std::ranges::count(left->points, rig.freed(rig.main)) == 1);
  CHECK(std::ranges::count(left->points, rig.freed(rig.copy)) == 1);
}

TEST_CASE("a block of a destroyed stream has no lane once its work is complete", "[parts]") {
  PartsRig rig;
  StreamId gone;
  Block* block = nullptr;
  {
    const Stream stream{rig.ordered};
    gone = stream.id();
    block = rig.segment(64 * MiB, stream);
    rig.work(stream);
    rig.put(block, stream);
  }
  rig.ordered.synchronize();
  const Stream next{rig.ordered};  // takes the slot of the previous stream
  rig.put(rig.segment(2 * MiB, next), next);
  rig.free_blocks.merge_former_lanes();
  const StreamId lane = block->lane;
  CHECK_FALSE(lane.valid());
  CHECK(lane != gone);
  CHECK(rig.stock.shelves.former() == nullptr);
  check_free(rig);
}

}  // namespace millrace::test
