#include "memory/caching/survey.hpp"

#include "test/memory/parts/fronts_rig.hpp"

namespace millrace::test {
namespace {

struct SurveyRig : FrontsRig {
  using FrontsRig::FrontsRig;
  Allowance allowance{stock, {.limit = 1 * GiB, .headroom = 0}};
  Survey survey{stock, graphs, completions, allowance};
};

}  // namespace

TEST_CASE("free neighbors are usable as one block only if lanes mix", "[parts]") {
  const bool mix = GENERATE(true, false);
  SurveyRig rig{mix ? Policy::millrace() : Policy::torch()};
  Block* const left = rig.segment(24 * MiB, rig.main);
  Block* const middle = rig.stock.heap.split(left, 8 * MiB);
  Block* const right = rig.stock.heap.split(middle, 8 * MiB);
  right->lane = rig.main.id();
  middle->lane = rig.copy.id();
  for (Block* const block : {left, middle, right}) {
    block->points = PointSet{rig.freed(rig.main)};
    rig.free_blocks.put(block);
  }
  const UsableBytes usable = rig.survey.usable(rig.main.id());
  CHECK(usable.total == (mix ? 24 : 16) * MiB);
  CHECK(usable.largest == (mix ? 24 : 8) * MiB);
  CHECK(usable.stranded == (mix ? 0 : 8) * MiB);
}

TEST_CASE("the picture of a failed request accounts for all free memory", "[parts]") {
  SurveyRig rig;
  Block* const live = rig.live(40 * MiB, rig.main);
  rig.put(rig.rest_of_large, rig.main);
  rig.put(rig.segment(16 * MiB, rig.copy), rig.copy);
  rig.stock.turns.add_all();
  rig.free_blocks.list_all();
  const MemoryPicture seen = rig.survey.picture(rig.request(100 * MiB, rig.main));
  CHECK(seen.reserved == 80 * MiB);
  CHECK(seen.allocated == live->bytes);
  CHECK(seen.usable == 24 * MiB);
  CHECK(seen.largest_usable == 24 * MiB);
  REQUIRE(seen.stranded.size() == 1);
  CHECK(seen.stranded.front().bytes == 16 * MiB);
  CHECK(seen.limit == 1 * GiB);
}

}  // namespace millrace::test
