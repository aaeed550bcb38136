#include "memory/caching/stale_pages.hpp"

#include "test/memory/parts/parts_rig.hpp"

namespace millrace::test {
namespace {

struct StaleRig : PartsRig {
  StalePages stale{stock, completions};

  /// Adds moved pages that `stream` used last.
  Block* add(std::size_t bytes, const Stream& stream) {
    Block* const block = in_range(bytes, stream);
    block->points = PointSet{freed(stream)};
    stale.add(block);
    in_range(2 * MiB, stream);  // so that the unmapped pages are not at the end
    return block;
  }
};

}  // namespace

TEST_CASE("stale pages are unmapped in the order in which they came, once their work is complete",
          "[parts]") {
  StaleRig rig;
  Block* const first = rig.add(4 * MiB, rig.main);
  Block* const second = rig.add(6 * MiB, rig.main);
  rig.ordered.mark(rig.main);
  rig.ordered.synchronize();
  Block* const third = rig.add(8 * MiB, rig.copy);
  void* const addresses[] = {first->address, second->address, third->address};
  rig.work(rig.copy);
  CHECK(rig.stale.unmap_until(14 * MiB, rig.lock));
  CHECK(rig.counted.ended == std::map<void*, std::size_t>{{addresses[0], 4 * MiB}});
  CHECK(rig.stale.unmap_until(0, rig.lock));
  CHECK(rig.counted.ended.size() == 2);
  CHECK(rig.stale.blocks().size() == 1);  // copy's work still runs
  CHECK(rig.stale.unmap_all(rig.lock));
  CHECK(rig.counted.ended.contains(addresses[2]));
  CHECK(rig.stale.blocks().empty());
  CHECK(rig.stock.heap.holes().size() == 3);
}

TEST_CASE("a part of a stale block is unmapped, and the rest stays stale", "[parts]") {
  StaleRig rig;
  Block* const block = rig.add(8 * MiB, rig.main);
  void* const address = block->address;
  rig.ordered.mark(rig.main);
  rig.ordered.synchronize();
  CHECK(rig.stale.unmap(block, 2 * MiB, rig.lock));
  CHECK(rig.counted.ended == std::map<void*, std::size_t>{{address, 2 * MiB}});
  REQUIRE(rig.stale.blocks().size() == 1);
  CHECK(rig.stale.blocks().front()->bytes == 6 * MiB);
  CHECK(rig.stale.blocks().front()->address == static_cast<std::byte*>(address) + 2 * MiB);
}

TEST_CASE("pages that the driver refuses to unmap are tried again after the others", "[parts]") {
  StaleRig rig;
  Block* const first = rig.add(4 * MiB, rig.main);
  Block* const second = rig.add(6 * MiB, rig.main);
  rig.ordered.mark(rig.main);
  rig.ordered.synchronize();
  rig.counted.refuses = true;
  CHECK_FALSE(rig.stale.unmap_until(0, rig.lock));
  CHECK(rig.stale.blocks().front() == second);
  CHECK(rig.stale.blocks().back() == first);
  rig.counted.refuses = false;
  CHECK(rig.stale.unmap_until(0, rig.lock));
  CHECK(rig.stale.blocks().empty());
}

}  // namespace millrace::test
