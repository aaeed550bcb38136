#include "memory/caching/freeing.hpp"

#include <algorithm>

#include "test/memory/parts/fronts_rig.hpp"

namespace millrace::test {
namespace {

struct FreeingRig : FrontsRig {
  using FrontsRig::FrontsRig;
  Freeing freeing{stock, reports, graphs, free_blocks, completions, upkeep, quick_uses};
};

bool has_point(const PointSet& points, Point point) {
  return std::ranges::count(points, point) == 1;
}

}  // namespace

TEST_CASE("a freed block waits for the stream of its free and for each recorded use", "[parts]") {
  FreeingRig rig;
  const Stream third{rig.ordered};
  Block* const block = rig.live(4 * MiB, rig.main);
  rig.allocations.add_use(*block, rig.copy);
  rig.allocations.add_use(*block, third);
  StreamUses to_mark;
  const PointSet points = rig.freeing.points_of_free(*block, rig.main, false, to_mark);
  CHECK(std::ranges::distance(points) == 3);
  CHECK(has_point(points, rig.freed(rig.main)));
  CHECK(has_point(points, rig.freed(rig.copy)));
  CHECK(has_point(points, rig.freed(third)));
  CHECK(to_mark.size() == 2);  // the program marks the stream of the free
}

TEST_CASE("a free keeps earlier tenants' points unless its stream is ordered after them",
          "[parts]") {
  FreeingRig rig;
  Block* const block = rig.live(4 * MiB, rig.main);
  const Point tenant = rig.freed(rig.copy);
  block->points = PointSet{tenant};
  StreamUses to_mark;
  CHECK_FALSE(has_point(rig.freeing.points_of_free(*block, rig.main, true, to_mark), tenant));
  const Stream third{rig.ordered};
  CHECK(has_point(rig.freeing.points_of_free(*block, third, true, to_mark), tenant));
}

TEST_CASE("if polls complete frees, a block with uses is pending and other blocks are free",
          "[parts]") {
  FreeingRig rig{Policy::torch()};
  Block* const used = rig.live(4 * MiB, rig.main);
  Block* const plain = rig.live(4 * MiB, rig.main);
  rig.allocations.add_use(*used, rig.copy);
  rig.device.launch(fixed_kernel("work", std::chrono::milliseconds{5}), rig.copy.handle());
  for (Block* const block : {used, plain}) {
    block->state = BlockState::claimed;
    rig.freeing.free_on(block, rig.main, false, rig.lock);
  }
  CHECK(used->state == BlockState::pending);
  CHECK(plain->state == BlockState::free);
  rig.ordered.synchronize();
  rig.completions.poll(rig.lock);
  CHECK(used->state == BlockState::free);
  CHECK(used->bytes == 8 * MiB);  // with its neighbor
}

}  // namespace millrace::test
