// General memory that graphs use: how long the allocator keeps it.

#include <optional>
#include <vector>

#include "millrace/memory/graph_pool.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

struct UsedMemoryRig : Bench {
  /// Captures a graph that uses the block.
  void capture(const GraphPool& pool, void* used) {
    GraphCapture capture{pool, main};
    allocator.record_use(used, main);
    capture.end();
  }
  [[nodiscard]] MemoryGauges bytes() { return allocator.statistics().bytes; }

  CachingAllocator allocator{ordered, source, Policy::millrace()};
};

}  // namespace

TEST_CASE("outside memory that a graph uses is kept until the graph is destroyed", "[graph]") {
  for (const bool by_marker : {false, true}) {
    UsedMemoryRig rig;
    void* const weights = rig.allocator.allocate(10 * MiB, rig.main);
    const std::size_t allocated = rig.bytes().allocated.current;
    std::optional<GraphPool> pool{std::in_place, rig.allocator};
    {
      GraphCapture capture{*pool, rig.main};
      rig.allocator.record_use(weights, rig.main);
      capture.end();
    }
    if (by_marker) {
      rig.allocator.deallocate(weights, rig.main.mark());
    } else {
      rig.allocator.deallocate(weights);
    }
    rig.ordered.synchronize();
    CHECK(rig.allocator.block_size(weights) == 0);
    CHECK_THROWS_AS(rig.allocator.deallocate(weights), std::invalid_argument);
    CHECK(rig.bytes().allocated.current == allocated);
    CHECK(rig.allocator.allocate(10 * MiB, rig.main) != weights);
    pool->launched(rig.copy);
    pool.reset();
    CHECK(rig.allocator.statistics().graph_pools.pools == 0);
    rig.ordered.synchronize();
    CHECK(rig.allocator.allocate(10 * MiB, rig.main) == weights);
    rig.allocator.check_invariants();
  }
}

TEST_CASE("a free after the graph is destroyed waits for its launches as well", "[graph]") {
  UsedMemoryRig rig;
  void* const weights = rig.allocator.allocate(10 * MiB, rig.main);
  {
    GraphPool pool{rig.allocator, GraphPool::HeldUntil::destroyed};
    GraphCapture capture{pool, rig.main};
    rig.allocator.record_use(weights, rig.main);
    capture.end();
    pool.launched(rig.copy);
  }
  rig.allocator.deallocate(weights);
  CHECK(rig.allocator.allocate(10 * MiB, rig.main) != weights);
  rig.main.wait_stream(rig.copy);
  CHECK(rig.allocator.allocate(10 * MiB, rig.main) == weights);
}

TEST_CASE("memory freed in a capture without a recorded use is free after the capture", "[graph]") {
  UsedMemoryRig rig;
  void* const garbage = rig.allocator.allocate(10 * MiB, rig.main);
  const GraphPool pool{rig.allocator};
  {
    GraphCapture capture{pool, rig.main};
    rig.allocator.deallocate(garbage);
    CHECK(rig.allocator.allocate(10 * MiB, rig.main) != garbage);
    capture.end();
  }
  CHECK(rig.allocator.allocate(10 * MiB, rig.main) == garbage);
}

TEST_CASE("a free marks the recorded uses while their streams exist", "[graph]") {
  UsedMemoryRig rig;
  void* const weights = rig.allocator.allocate(10 * MiB, rig.main);
  std::optional<GraphPool> pool{std::in_place, rig.allocator};
  rig.capture(*pool, weights);
  const StreamHandle raw = rig.device.create_stream();
  Gate gate = rig.device.enqueue_gate(raw);
  rig.allocator.record_use(weights, raw);
  rig.allocator.deallocate(weights);
  rig.device.destroy_stream(raw);
  const StreamHandle next = rig.device.create_stream();
  REQUIRE(next == raw);  // the same handle, a new stream without work
  pool->launched(rig.main);
  pool.reset();
  CHECK(rig.allocator.statistics().graph_pools.pools == 0);
  rig.ordered.poll();
  CHECK(rig.allocator.allocate(10 * MiB, rig.main) != weights);
  gate.open();
  rig.ordered.synchronize();
  CHECK(rig.allocator.allocate(10 * MiB, rig.main) == weights);
  rig.device.destroy_stream(next);
}

TEST_CASE("memory that graphs used is given back without a device call", "[graph]") {
  UsedMemoryRig rig;
  void* const weights = rig.allocator.allocate(10 * MiB, rig.main);
  std::optional<GraphPool> pool{std::in_place, rig.allocator};
  rig.capture(*pool, weights);
  rig.allocator.record_use(weights, rig.copy);
  rig.allocator.deallocate(weights);
  pool->launched(rig.main);
  const std::uint64_t calls = rig.device.calls();
  pool.reset();
  CHECK(rig.allocator.statistics().graph_pools.pools == 0);
  CHECK(rig.device.calls() == calls);
}

TEST_CASE("a free by marker covers all uses outside the graphs that use the memory", "[graph]") {
  UsedMemoryRig rig;
  void* const weights = rig.allocator.allocate(10 * MiB, rig.main);
  std::optional<GraphPool> pool{std::in_place, rig.allocator};
  rig.capture(*pool, weights);
  Gate gate = rig.device.enqueue_gate(rig.copy.handle());
  rig.main.wait_stream(rig.copy);
  rig.allocator.record_use(weights, rig.copy);
  rig.allocator.deallocate(weights, rig.main.mark());
  pool->launched(rig.main);
  pool.reset();
  const std::uint64_t waits = rig.device.calls(Call::wait);
  CHECK(rig.allocator.allocate(10 * MiB, rig.main) == weights);
  CHECK(rig.device.calls(Call::wait) == waits);
  gate.open();
}

}  // namespace millrace::test
