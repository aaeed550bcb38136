// An allocator, or its device, that is destroyed before its pools and captures.

#include <memory>
#include <optional>

#include "millrace/memory/graph_pool.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
TEST_CASE("holders of a pool may outlive their allocator", "[graph]") {
  Bench bench;
  auto allocator =
      std::make_unique<CachingAllocator>(bench.ordered, bench.source, Policy::millrace());
  GraphPool pool{*allocator};
  auto capture = std::make_unique<GraphCapture>(pool, bench.main);
  static_cast<void>(allocator->allocate(MiB, bench.main));
  allocator.reset();
  CHECK_FALSE(bench.ordered.capturing());
  capture.reset();
  CHECK_THROWS_AS(pool.reserve(1), std::logic_error);
  CHECK(bench.device.memory_info().free == bench.device.memory_info().total);
}

TEST_CASE("an allocator that is destroyed before its pools leaves no tracked stream", "[graph]") {
  Bench bench;
  auto allocator =
      std::make_unique<CachingAllocator>(bench.ordered, bench.source, Policy::millrace());
  std::optional<GraphPool> idle{std::in_place, *allocator}, ran{std::in_place, *allocator},
      in_capture{std::in_place, *allocator};
  {
    GraphCapture capture{*ran, bench.main};
    static_cast<void>(allocator->allocate(MiB, bench.main));
    capture.end();
  }
  std::optional<GraphCapture> capture{std::in_place, *in_capture, bench.main};
  static_cast<void>(allocator->allocate(MiB, bench.main));
  allocator.reset();
  CHECK(bench.ordered.ledger().tracked_streams() == 2);
  CHECK(in_capture->statistics().capturing == 0);
  CHECK(bench.device.memory_info().free == bench.device.memory_info().total);
  idle.reset();
  ran.reset();
  capture.reset();
  in_capture.reset();
  CHECK(bench.ordered.ledger().tracked_streams() == 2);
}

TEST_CASE("holders of a pool may outlive the device", "[graph]") {
  std::optional<GraphPool> pool;
  std::optional<GraphCapture> capture;
  {
    Bench bench;
    CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
    pool.emplace(allocator);
    capture.emplace(*pool, bench.main);
    static_cast<void>(allocator.allocate(MiB, bench.main));
  }
  capture.reset();
  CHECK_THROWS_AS(pool->reserve(1), std::logic_error);
  pool.reset();
}

TEST_CASE("a captured stream that is destroyed leaves its memory to its pool", "[graph]") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  std::optional<GraphPool> pool{std::in_place, allocator};
  std::optional<Stream> side{std::in_place, bench.ordered};
  std::optional<GraphCapture> capture{std::in_place, *pool, *side};
  void* const output = allocator.allocate(3 * MiB, *side);
  allocator.deallocate(allocator.allocate(5 * MiB, *side));
  side.reset();
  capture.reset();
  CHECK_FALSE(bench.ordered.capturing());
  allocator.deallocate(output);
  pool.reset();
  CHECK(allocator.statistics().graph_pools.pools == 0);
  bench.ordered.synchronize();
  allocator.trim();
  CHECK(allocator.statistics().bytes.reserved.current == 0);
  CHECK(bench.ordered.ledger().tracked_streams() == 2);
}

}  // namespace millrace::test
