// A request that fits is served, even while other threads give memory back or fail to get memory.

#include <atomic>
#include <limits>

#include "test/support/catch.hpp"
#include "test/support/threaded_bench.hpp"

namespace millrace::test {
namespace {

/// One thread allocates and frees blocks of `bytes` while others call `disturb`.
/// @return number of requests that failed
std::size_t failures(CachingAllocator& allocator, ThreadedBench& bench, std::size_t bytes,
                     const std::function<void()>& disturb) {
  std::atomic<std::size_t> failed{0};
  std::atomic<bool> done{false};
  on_threads([&](std::size_t t, std::mt19937_64&) {
    if (t != 0) {
      while (!done) disturb();
      return;
    }
    for (int i = 0; i < 400; ++i) {
      try {
        allocator.deallocate(allocator.allocate(bytes, bench.streams[0]));
      } catch (const out_of_memory&) {
        ++failed;
      }
    }
    done = true;
  });
  allocator.check_invariants();
  return failed;
}

}  // namespace

TEST_CASE("a request that fits does not fail while other threads give memory back") {
  for (const Policy& policy : thread_presets()) {
    CAPTURE(policy.name, seed());
    ThreadedBench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy, {.limit = 2 * MiB}};
    CHECK(failures(allocator, bench, 4 * KiB, [&] { allocator.trim(); }) == 0);
  }
}

TEST_CASE("a request that fits does not fail beside requests that cannot be served") {
  for (const Policy& policy : thread_presets()) {
    CAPTURE(policy.name, seed());
    ThreadedBench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy, {.limit = 40 * MiB}};
    std::atomic<std::size_t> served{0};
    CHECK(failures(allocator, bench, 12 * MiB, [&] {
            try {
              allocator.deallocate(allocator.allocate(64 * MiB, bench.streams[1]));
              ++served;
            } catch (const out_of_memory&) {
            }
          }) == 0);
    CHECK(served == 0);
  }
}

TEST_CASE("trim keeps the given number of bytes, up to the largest number") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::torch()};
  allocator.deallocate(allocator.allocate(MiB, bench.main));
  allocator.deallocate(allocator.allocate(12 * MiB, bench.main));
  constexpr auto kAll = std::numeric_limits<std::size_t>::max();
  for (const std::size_t keep : {kAll, kAll - 2 * MiB + 1, 14 * MiB, 13 * MiB}) {
    CAPTURE(keep);
    CHECK(allocator.trim(keep) == 0);
  }
  CHECK(allocator.trim(12 * MiB) == 2 * MiB);
  CHECK(allocator.trim(0) == 12 * MiB);
}

TEST_CASE("a request that lacks little releases only a part of the cache") {
  Bench bench;
  CachingAllocator allocator{
      bench.ordered, bench.source, exact_segments(Policy::millrace()), {.limit = 64 * MiB}};
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(allocator.allocate(4 * MiB, bench.main));
  // Every second block, so that no two free blocks merge.
  for (std::size_t i = 0; i < blocks.size(); i += 2) allocator.deallocate(blocks[i]);
  void* const larger = allocator.allocate(8 * MiB, bench.main);
  CHECK(allocator.statistics().bytes.reserved.current == 64 * MiB);
  allocator.deallocate(larger);
  for (std::size_t i = 1; i < blocks.size(); i += 2) allocator.deallocate(blocks[i]);
}

}  // namespace millrace::test
