// How long a pool keeps its memory, and where the memory goes afterwards.

#include <memory>
#include <optional>
#include <vector>

#include "millrace/memory/graph_pool.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

struct HolderRig : Bench {
  explicit HolderRig(Policy policy = Policy::millrace())
      : allocator(ordered, source, std::move(policy)) {}

  /// Captures a graph with one temporary block of `bytes` bytes.
  void capture(const GraphPool& pool, StreamRef stream, std::size_t bytes) {
    GraphCapture capture{pool, stream};
    allocator.deallocate(allocator.allocate(bytes, stream));
    capture.end();
  }
  /// Captures a graph whose output is a live block of `main`.
  [[nodiscard]] void* capture_output(const GraphPool& pool, std::size_t bytes) {
    GraphCapture capture{pool, main};
    void* const output = allocator.allocate(bytes, main);
    capture.end();
    return output;
  }
  [[nodiscard]] MemoryGauges bytes() { return allocator.statistics().bytes; }

  CachingAllocator allocator;
};

}  // namespace

TEST_CASE("a pool's memory counts as allocated until its last holder is destroyed", "[graph]") {
  const auto presets = {Policy::millrace(), Policy::torch()};
  for (const Policy& policy : presets) {
    CAPTURE(policy.name);
    HolderRig rig{policy};
    rig.allocator.deallocate(rig.allocator.allocate(MiB, rig.main));
    const MemoryStatistics before = rig.allocator.statistics();
    std::optional<GraphPool> graph{std::in_place, rig.allocator};
    std::optional<GraphPool> executable{*graph};
    rig.capture(*graph, rig.main, 24 * MiB);
    graph->launched(rig.main);
    graph.reset();
    MemoryStatistics now = rig.allocator.statistics();
    CHECK(now.graph_pools.pools == 1);
    CHECK(now.graph_pools.reserved >= 24 * MiB);
    CHECK(now.graph_pools.allocated == 0);
    CHECK(now.bytes.allocated.current == before.bytes.allocated.current + now.graph_pools.reserved);
    executable.reset();
    now = rig.allocator.statistics();
    CHECK(now.graph_pools.pools == 0);
    CHECK(now.graph_pools.reserved == 0);
    CHECK(now.bytes.allocated.current == before.bytes.allocated.current);
    CHECK(now.bytes.requested.current == before.bytes.requested.current);
    CHECK(now.live_blocks == before.live_blocks);
    rig.allocator.check_invariants();
    rig.ordered.synchronize();
    rig.allocator.trim();
    CHECK(rig.bytes().reserved.current == 0);
  }
}

TEST_CASE("a graph's memory is free after the launches that were reported", "[graph]") {
  HolderRig rig;
  {
    GraphPool pool{rig.allocator};
    rig.capture(pool, rig.main, 24 * MiB);
    pool.launched(rig.copy);
  }
  const std::size_t reserved = rig.bytes().reserved.current;
  void* const same = rig.allocator.allocate(24 * MiB, rig.copy);  // after the launch: no wait
  CHECK(rig.bytes().reserved.current == reserved);
  rig.allocator.deallocate(same);
  CHECK(rig.allocator.usable(rig.main).stranded >= 24 * MiB);
}

TEST_CASE("only synchronizing the device completes launches that were not reported", "[graph]") {
  HolderRig rig;
  {
    const GraphPool pool{rig.allocator};
    rig.capture(pool, rig.main, 24 * MiB);
  }
  CHECK(rig.allocator.usable(rig.main).stranded >= 24 * MiB);
  rig.main.synchronize();
  CHECK(rig.allocator.usable(rig.main).stranded >= 24 * MiB);
  rig.ordered.synchronize();
  CHECK(rig.allocator.usable(rig.main).stranded == 0);
  CHECK(rig.ordered.ledger().tracked_streams() == 2);
}

TEST_CASE("before a request fails, it synchronizes for the memory of destroyed graphs", "[graph]") {
  HolderRig rig;
  {
    const GraphPool pool{rig.allocator};
    rig.capture(pool, rig.main, 600 * MiB);
  }
  rig.allocator.set_limit(700 * MiB);
  CHECK(rig.allocator.allocate(600 * MiB, rig.copy) != nullptr);
}

TEST_CASE("memory that user objects hold is free as soon as they release it", "[graph]") {
  HolderRig rig;
  void* object = nullptr;
  {
    const GraphPool pool{rig.allocator, GraphPool::HeldUntil::executed};
    rig.capture(pool, rig.main, 24 * MiB);
    object = pool.retain();
  }
  CHECK(rig.allocator.statistics().graph_pools.pools == 1);
  const std::uint64_t calls = rig.device.calls();
  GraphPool::release(object);
  CHECK(rig.device.calls() == calls);
  CHECK(rig.allocator.statistics().graph_pools.pools == 0);
  CHECK(rig.allocator.usable(rig.copy).stranded == 0);
  CHECK(rig.allocator.usable(rig.copy).total >= 24 * MiB);
  CHECK(rig.ordered.ledger().tracked_streams() == 2);
}

TEST_CASE("an output that outlives its graph belongs to the caller until the caller frees it",
          "[graph]") {
  HolderRig rig;
  void *output = nullptr, *temporary = nullptr;
  {
    GraphPool pool{rig.allocator};
    GraphCapture capture{pool, rig.main};
    output = rig.allocator.allocate(10 * MiB, rig.main);
    temporary = rig.allocator.allocate(40 * MiB, rig.main);
    rig.allocator.deallocate(temporary);
    capture.end();
    pool.launched(rig.main);
  }
  CHECK(rig.allocator.statistics().graph_pools.allocated == 10 * MiB);
  CHECK(rig.allocator.statistics().graph_pools.reserved < 40 * MiB);
  CHECK(rig.allocator.block_size(output) == 10 * MiB);
  rig.allocator.record_use(output, rig.copy);
  rig.allocator.deallocate(output);
  CHECK(rig.allocator.statistics().graph_pools.pools == 0);
  CHECK(rig.bytes().allocated.current == 0);
  CHECK_THROWS_AS(rig.allocator.deallocate(output), std::invalid_argument);
  rig.ordered.synchronize();
  rig.allocator.trim();
  CHECK(rig.bytes().reserved.current == 0);
}

TEST_CASE("an output freed after the capture serves the next one once its uses are complete",
          "[graph]") {
  HolderRig rig;
  const GraphPool pool{rig.allocator};
  void* const output = rig.capture_output(pool, 10 * MiB);
  busy(rig, rig.copy, output, 10 * MiB);
  rig.allocator.record_use(output, rig.copy);
  rig.allocator.deallocate(output);
  {
    GraphCapture capture{pool, rig.main};
    CHECK(rig.allocator.allocate(10 * MiB, rig.main) != output);
    capture.end();
  }
  rig.ordered.synchronize();
  GraphCapture capture{pool, rig.main};
  CHECK(rig.allocator.allocate(10 * MiB, rig.main) == output);
  capture.end();
}

TEST_CASE("an earlier capture's output freed in a later one does not serve that one", "[graph]") {
  HolderRig rig;
  const GraphPool pool{rig.allocator};
  void* const output = rig.capture_output(pool, 10 * MiB);
  busy(rig, rig.main, output, 10 * MiB);  // a replay on another stream is not ordered after it
  GraphCapture capture{pool, rig.main};
  rig.allocator.deallocate(output);
  CHECK(rig.allocator.allocate(10 * MiB, rig.main) != output);
  capture.end();
}

TEST_CASE("an abandoned capture leaves the pool and the allocator usable", "[graph]") {
  const auto presets = {Policy::millrace(), Policy::torch()};
  for (const Policy& policy : presets) {
    CAPTURE(policy.name);
    HolderRig rig{policy};
    const GraphPool pool{rig.allocator};
    void *left = nullptr, *weights = rig.allocator.allocate(3 * MiB, rig.main);
    try {
      const GraphCapture capture{pool, rig.main};
      rig.allocator.record_use(weights, rig.main);
      rig.allocator.deallocate(rig.allocator.allocate(30 * MiB, rig.main));
      left = rig.allocator.allocate(5 * MiB, rig.main);
      rig.allocator.deallocate(weights);
      throw std::runtime_error{"the model cannot be captured"};
    } catch (const std::runtime_error&) {
    }
    CHECK(pool.statistics().allocated == 5 * MiB);
    rig.allocator.deallocate(left);
    CHECK_FALSE(rig.ordered.capturing());
    {
      const GraphCapture capture{pool, rig.main};  // an empty capture, also abandoned
    }
    CHECK(pool.statistics().capturing == 0);
    rig.allocator.check_invariants();
    CHECK(rig.allocator.allocate(3 * MiB, rig.main) == weights);
  }
}

TEST_CASE("memory that only an abandoned capture acquired is free at once", "[graph]") {
  HolderRig rig;
  GraphPool pool{rig.allocator};
  rig.capture(pool, rig.main, 10 * MiB);
  const std::size_t held = pool.statistics().reserved;
  void* again = nullptr;
  {
    const GraphCapture capture{pool, rig.main};
    again = rig.allocator.allocate(10 * MiB, rig.main);
    rig.allocator.deallocate(rig.allocator.allocate(64 * MiB, rig.main));
    rig.allocator.deallocate(again);
  }
  CHECK(pool.statistics().reserved == held);
  CHECK(rig.allocator.usable(rig.copy).largest >= 64 * MiB);  // none of the capture's work ran
  GraphCapture capture{pool, rig.main};
  CHECK(rig.allocator.allocate(10 * MiB, rig.main) == again);
  capture.end();
}

TEST_CASE("short-lived pools leave no tracked stream and no reserved memory", "[graph]") {
  HolderRig rig;
  std::size_t reserved = 0, tracked = 0;
  for (int round = 0; round < 300; ++round) {
    {
      GraphPool pool{rig.allocator};
      rig.capture(pool, round % 2 == 0 ? rig.main : rig.copy, 20 * MiB);
      pool.launched(rig.main);
    }
    rig.main.mark();
    if (round % 10 == 9) rig.main.synchronize();
    const std::size_t now = rig.bytes().reserved.current;
    if (round == 20) {
      reserved = now;
      tracked = rig.ordered.ledger().tracked_streams();
    }
    if (round % 10 == 0 && round > 20) {
      CHECK(now == reserved);
      CHECK(rig.ordered.ledger().tracked_streams() == tracked);
    }
  }
  rig.allocator.check_invariants();
}

}  // namespace millrace::test
