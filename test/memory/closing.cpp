// What an allocator gives back when it is destroyed.

#include <memory>

#include "millrace/memory/fixed_pool.hpp"
#include "millrace/memory/graph_pool.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

std::size_t used(Bench& bench) {
  const MemoryInfo info = bench.device.memory_info();
  return info.total - info.free;
}

}  // namespace

TEST_CASE("an allocator that goes while a stream is captured gives back what the host can await") {
  const bool growable = GENERATE(true, false);
  CAPTURE(growable);
  Policy policy = Policy::millrace();
  if (!growable) policy = exact_segments(policy);
  Bench bench;
  auto allocator = std::make_unique<CachingAllocator>(bench.ordered, bench.source, policy);
  void* const freed = allocator->allocate(8 * MiB, bench.copy);
  busy(bench, bench.copy, freed, 8 * MiB);
  allocator->deallocate(freed);
  void* const kept = allocator->allocate(16 * MiB, bench.copy);  // the program never frees it
  busy(bench, bench.copy, kept, 16 * MiB);
  REQUIRE(used(bench) >= 16 * MiB);
  const StreamRef captured = bench.ordered.begin_capture(bench.main);
  bench.device.set_capture_status(bench.main.handle(), CaptureStatus::active);
  allocator.reset();
  CHECK(used(bench) == 0);
  bench.device.set_capture_status(bench.main.handle(), CaptureStatus::none);
  bench.ordered.end_capture(captured);
}

TEST_CASE("an allocator that goes keeps what a captured stream may still use") {
  Bench bench;
  auto allocator = std::make_unique<CachingAllocator>(bench.ordered, bench.source,
                                                      exact_segments(Policy::millrace()));
  allocator->deallocate(allocator->allocate(16 * MiB, bench.copy));
  void* const of_main = allocator->allocate(24 * MiB, bench.main);
  busy(bench, bench.main, of_main, 24 * MiB);
  allocator->deallocate(of_main);  // no marker covers its last use
  const StreamRef captured = bench.ordered.begin_capture(bench.main);
  bench.device.set_capture_status(bench.main.handle(), CaptureStatus::active);
  allocator.reset();
  CHECK(used(bench) == 24 * MiB);
  bench.device.set_capture_status(bench.main.handle(), CaptureStatus::none);
  bench.ordered.end_capture(captured);
}

TEST_CASE("an allocator that was told of no pool refuses a captured stream") {
  Bench bench;
  FixedPool pool{bench.ordered, bench.source, {.block_bytes = 64 << 10}};
  for (int i = 0; i < 3; ++i) pool.memory().deallocate(pool.allocate(bench.main));
  const StreamRef captured = bench.ordered.begin_capture(bench.main);
  CHECK_THROWS_AS(pool.allocate(bench.main), std::invalid_argument);
  CHECK(pool.memory().statistics().live_blocks == 0);
  bench.ordered.end_capture(captured);
  pool.memory().deallocate(pool.allocate(bench.main));
  pool.memory().check_invariants();
}

TEST_CASE("an allocator that goes while a stream is captured keeps what graphs may still read") {
  Bench bench;
  auto allocator = std::make_unique<CachingAllocator>(bench.ordered, bench.source,
                                                      exact_segments(Policy::millrace()));
  std::size_t of_graphs = 0;
  {
    GraphPool pool{*allocator};
    {
      GraphCapture capture{pool, bench.main};
      bench.device.set_capture_status(bench.main.handle(), CaptureStatus::active);
      allocator->deallocate(allocator->allocate(4 * MiB, bench.main));
      bench.device.set_capture_status(bench.main.handle(), CaptureStatus::none);
      capture.end();
    }
    of_graphs = used(bench);
    REQUIRE(of_graphs >= 4 * MiB);
    pool.launched(bench.main);
    const StreamRef captured = bench.ordered.begin_capture(bench.copy);
    bench.device.set_capture_status(bench.copy.handle(), CaptureStatus::active);
    allocator.reset();
    bench.device.set_capture_status(bench.copy.handle(), CaptureStatus::none);
    bench.ordered.end_capture(captured);
  }
  CHECK(used(bench) == of_graphs);
}

TEST_CASE("a use of a pool's block in a capture into another pool is refused") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  GraphPool first{allocator}, second{allocator};
  void* output = nullptr;
  {
    GraphCapture capture{first, bench.main};
    output = allocator.allocate(MiB, bench.main);
    capture.end();
  }
  {
    GraphCapture capture{second, bench.copy};
    CHECK_THROWS_AS(allocator.record_use(output, bench.copy), std::invalid_argument);
    CHECK_THROWS_AS(allocator.transfer(output, bench.copy), std::invalid_argument);
    CHECK_THROWS_AS(allocator.deallocate(output, bench.copy), std::invalid_argument);
    CHECK(allocator.block_size(output) >= MiB);
    capture.end();
  }
  allocator.record_use(output, bench.copy);  // outside of captures
  allocator.deallocate(output);
  allocator.check_invariants();
}

}  // namespace millrace::test
