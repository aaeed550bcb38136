#include "memory/caching/reports.hpp"

#include <algorithm>

#include "test/memory/parts/parts_rig.hpp"

namespace millrace::test {
namespace {

struct Told final : AllocationObserver {
  void allocated(const AllocationEvent& event) override { ids.push_back(event.id); }
  void segment_acquired(void*, std::size_t bytes) override { segments.push_back(bytes); }
  std::vector<std::uint64_t> ids;
  std::vector<std::size_t> segments;
};

Block* make_live(PartsRig& rig, Block* block, std::uint64_t id) {
  block->state = BlockState::live;
  block->live = {block->bytes, rig.main, LiveUses{1}, id};
  rig.stock.heap.live().insert(block);
  return block;
}

}  // namespace

TEST_CASE("only a registered observer gets reports", "[parts]") {
  PartsRig rig;
  Told told;
  rig.reports.acquired(nullptr, 1);
  rig.reports.send_to(&told);
  rig.reports.acquired(nullptr, 2);
  rig.reports.send_to(nullptr);
  rig.reports.acquired(nullptr, 3);
  CHECK(told.segments == std::vector<std::size_t>{2});
}

TEST_CASE("an observer gets memory between holes as one segment, and live blocks by age",
          "[parts]") {
  PartsRig rig;
  Block* const first = make_live(rig, rig.in_range(4 * MiB, rig.main), 7);
  Block* const hole = rig.in_range(6 * MiB, rig.main);
  make_live(rig, rig.in_range(2 * MiB, rig.main), 3);
  rig.put(rig.in_range(8 * MiB, rig.main), rig.main);
  rig.stock.heap.vacate(hole);
  Told told;
  rig.reports.report_all(rig.stock.heap, told);
  CHECK(told.segments == std::vector<std::size_t>{4 * MiB, 10 * MiB});
  CHECK(told.ids == std::vector<std::uint64_t>{3, 7});
  CHECK(first->state == BlockState::live);
}

}  // namespace millrace::test
