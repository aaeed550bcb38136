// The parts that get new memory and the parts that give memory back, one by one.

#include "memory/caching/giving_back.hpp"
#include "memory/caching/growth.hpp"
#include "memory/caching/moved_pages.hpp"
#include "memory/caching/ranges.hpp"
#include "test/memory/parts/fronts_rig.hpp"

namespace millrace::test {
namespace {

struct GrowthRig : FrontsRig {
  explicit GrowthRig(Policy policy = Policy::millrace(), MemoryLimits limits = {})
      : FrontsRig(std::move(policy)), allowance(stock, limits) {
    stock.turns.current().counts().frees = 1;  // the program has started
  }
  OwnLane own_lane{stock, free_blocks, held};
  Reuse reuse{stock, free_blocks, upkeep, own_lane};
  Allowance allowance;
  StalePages stale{stock, completions};
  RangePages range_pages{stock, reports, free_blocks, completions, stale};
  MovedPages moved_pages{stock, reports, free_blocks, upkeep, reuse, stale, range_pages};
  GivingBack giving_back{stock,  reports, free_blocks, completions,
                         upkeep, held,    allowance,   range_pages};
  Ranges ranges{stock, reports, free_blocks, held, allowance, stale, moved_pages, giving_back};
  Expandable expandable{stock, reports, free_blocks, allowance};
  Growth growth{stock, reports, allowance, ranges, expandable, giving_back};

  /// Returns a claimed block of a range, in the lane of `stream`, or nullptr.
  Block* grow(std::size_t bytes, const Stream& stream) {
    Block* const block = ranges.grow(request(bytes, stream), lock);
    if (block != nullptr) block->lane = stream.id();
    return block;
  }
};

}  // namespace

TEST_CASE("a range grows by the bytes that the free block at its end lacks", "[parts]") {
  GrowthRig rig;
  Block* const first = rig.grow(10 * MiB, rig.main);
  REQUIRE(first != nullptr);
  CHECK(first->bytes == 10 * MiB);
  rig.put(first, rig.main);
  Block* const second = rig.grow(16 * MiB, rig.main);
  CHECK(second->address == first->segment->base);
  CHECK(second->bytes == 16 * MiB);
  CHECK(rig.stock.meter.bytes().reserved.current == 16 * MiB);
}

TEST_CASE("a hole is filled if that maps less than growth at the end", "[parts]") {
  GrowthRig rig;
  Block* const before = rig.grow(10 * MiB, rig.main);
  Block* const hole = rig.grow(10 * MiB, rig.main);
  rig.grow(10 * MiB, rig.main);
  rig.stock.turns.current().released(hole->bytes);
  rig.stock.heap.vacate(hole);
  rig.put(before, rig.main);
  Block* const found = rig.grow(16 * MiB, rig.main);
  CHECK(found == before);
  CHECK(rig.stock.meter.bytes().reserved.current == 26 * MiB);
}

TEST_CASE("complete pages of another stream's range are mapped in place of new memory", "[parts]") {
  GrowthRig rig;
  Block* const pages = rig.grow(8 * MiB, rig.copy);
  rig.grow(2 * MiB, rig.copy);  // so that the range does not end with them
  pages->points = PointSet{};
  rig.free_blocks.put(pages);
  Block* const grown = rig.grow(12 * MiB, rig.main);
  REQUIRE(grown != nullptr);
  CHECK(grown->bytes == 12 * MiB);
  CHECK(rig.stock.meter.bytes().reserved.current == 14 * MiB);
  CHECK(rig.stock.meter.counts().bytes_moved == 8 * MiB);
  REQUIRE(rig.stale.blocks().size() == 1);
  CHECK(rig.stale.blocks().front()->bytes == 8 * MiB);
}

TEST_CASE("growth that is refused leaves free memory as it was", "[parts]") {
  GrowthRig rig{Policy::millrace(), {.limit = 20 * MiB, .headroom = 0}};
  Block* const first = rig.grow(10 * MiB, rig.main);
  rig.put(first, rig.main);
  CHECK(rig.growth.grow(rig.request(30 * MiB, rig.main), rig.lock) == nullptr);
  CHECK(first->state == BlockState::free);
  CHECK(first->bytes == 10 * MiB);
  CHECK(rig.stock.meter.bytes().reserved.current == 10 * MiB);
  rig.stock.heap.check();
}

TEST_CASE("PyTorch's segments hold 2, 20 MiB, or the request in steps of 2 MiB", "[parts]") {
  GrowthRig rig{Policy::torch()};
  Request small = rig.request(1 * MiB, rig.main);
  small.small = true;
  CHECK(rig.growth.grow(small, rig.lock)->bytes == 2 * MiB);
  CHECK(rig.growth.grow(rig.request(3 * MiB, rig.main), rig.lock)->bytes == 20 * MiB);
  CHECK(rig.growth.grow(rig.request(31 * MiB, rig.main), rig.lock)->bytes == 32 * MiB);
}

TEST_CASE("completely free segments are released, and those that the user reserved last",
          "[parts]") {
  GrowthRig rig{Policy::torch()};
  Block* const reserved = rig.segment(8 * MiB, rig.main);
  Block* const other = rig.segment(4 * MiB, rig.main);
  Block* const partly = rig.segment(6 * MiB, rig.main);
  void* const bases[] = {reserved->address, other->address};
  reserved->segment->kept = true;
  static_cast<void>(rig.stock.heap.split(partly, 2 * MiB));
  for (Block* const block : {reserved, other, partly}) {
    block->points = PointSet{};
    rig.free_blocks.put(block);
  }
  CHECK(rig.giving_back.release_free_memory(0, 1, rig.lock) == 4 * MiB);
  CHECK(rig.counted.released == std::map<void*, std::size_t>{{bases[1], 4 * MiB}});
  CHECK(rig.giving_back.release_free_memory(0, 1 * GiB, rig.lock) == 8 * MiB);
  CHECK(rig.counted.released.contains(bases[0]));
  CHECK(rig.stock.meter.bytes().reserved.current == 6 * MiB);
}

}  // namespace millrace::test
