#include "memory/caching/range_pages.hpp"

#include <algorithm>
#include <random>

#include "test/memory/parts/parts_rig.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kPage = 2 * MiB;

struct PagesRig : PartsRig {
  StalePages stale{stock, completions};
  RangePages pages{stock, reports, free_blocks, completions, stale};
};

std::size_t offset_of(const Block& block) {
  return static_cast<std::size_t>(block.address - block.segment->base);
}

}  // namespace

TEST_CASE("the last whole pages of a block are kept, and the rest of the block is free",
          "[parts]") {
  std::mt19937_64 random{seed()};
  for (int round = 0; round < 200; ++round) {
    PagesRig rig;
    const std::size_t before = (1 + random() % 6) * 512 * KiB;
    const std::size_t bytes = (1 + random() % 20) * 512 * KiB;
    const std::size_t most = (1 + random() % 5) * kPage;
    rig.in_range(before, rig.main);
    Block* const block = rig.in_range(bytes, rig.main);
    const std::size_t begin = (before + kPage - 1) / kPage * kPage;
    const std::size_t end = (before + bytes) / kPage * kPage;
    const std::size_t whole = end > begin ? std::min(most, end - begin) : 0;
    Block* const kept = rig.pages.keep(block, most);
    REQUIRE((kept == nullptr) == (whole == 0));
    if (kept != nullptr) {
      REQUIRE(kept->bytes == whole);
      REQUIRE(offset_of(*kept) + kept->bytes == end);
      REQUIRE(kept->state == BlockState::claimed);
    }
    rig.stock.heap.check();
    const Lane* const lane = rig.stock.shelves.find(rig.main.id());
    const std::size_t free = lane == nullptr ? 0 : lane->shelves[0].bytes();
    REQUIRE(free == bytes - whole);
  }
}

TEST_CASE("free pages of a range are released from its end until enough are released", "[parts]") {
  PagesRig rig;
  Block* const first = rig.in_range(8 * MiB, rig.main);
  Block* const live = rig.in_range(1 * MiB, rig.main);
  Block* const last = rig.in_range(5 * MiB, rig.main);
  std::byte* const base = first->address;
  rig.put(first, rig.main);
  rig.put(last, rig.main);
  Segment& range = *live->segment;
  CHECK(rig.pages.unmap_free(range, 6 * MiB, rig.lock) == 6 * MiB);
  CHECK(rig.counted.unmapped ==
        std::map<void*, std::size_t>{{base + 10 * MiB, 4 * MiB}, {base + 6 * MiB, 2 * MiB}});
  CHECK(rig.stock.meter.bytes().reserved.current == 8 * MiB);
  CHECK(rig.pages.unmap_free(range, 1 * GiB, rig.lock) == 6 * MiB);
  CHECK(live->state == BlockState::claimed);
  rig.stock.heap.check();
}

TEST_CASE("the host waits for the work on pages before they go back", "[parts]") {
  PagesRig rig;
  Block* const block = rig.in_range(8 * MiB, rig.main);
  Segment& range = *block->segment;
  const Point used = rig.freed(rig.main);
  rig.work(rig.main);
  block->points = PointSet{used};
  rig.free_blocks.put(block);
  CHECK(rig.pages.unmap_free(range, 1 * GiB, rig.lock) == 8 * MiB);
  CHECK(rig.ordered.ledger().completed(used));
}

}  // namespace millrace::test
