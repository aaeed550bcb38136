// Blocks that several threads free at once.

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <random>
#include <stdexcept>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/threaded_bench.hpp"

namespace millrace::test {
namespace {

/// @return whether a free finds its block live
bool is_accepted(const std::function<void()>& free) {
  try {
    free();
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

void require_freed_once(CachingAllocator& allocator, int freed) {
  REQUIRE(freed == 1);
  REQUIRE(allocator.statistics().live_blocks == 0);
}

}  // namespace

TEST_CASE("a batch that several threads free is freed once") {
  for (const Policy& policy : thread_presets()) {
    CAPTURE(policy.name, seed());
    ThreadedBench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy};
    for (int round = 0; round < 50; ++round) {
      const std::vector<std::size_t> sizes(16, 4096);
      std::vector<void*> got(sizes.size());
      allocator.allocate(sizes, got, bench.streams[0]);
      std::atomic<int> freed{0};
      on_threads([&](std::size_t, std::mt19937_64& random) {
        std::vector<void*> mine = got;
        std::ranges::shuffle(mine, random);
        if (is_accepted([&] { allocator.deallocate(mine); })) ++freed;
      });
      require_freed_once(allocator, freed);
    }
    allocator.check_invariants();
  }
}

TEST_CASE("a block with recorded uses that several threads free is freed once") {
  for (const Policy& policy : thread_presets()) {
    CAPTURE(policy.name, seed());
    ThreadedBench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy};
    for (int round = 0; round < 200; ++round) {
      void* const block = allocator.allocate(4096, bench.streams[0]);
      for (std::size_t s = 1; s < ThreadedBench::kThreads; ++s)
        allocator.record_use(block, bench.streams[s]);
      std::atomic<int> freed{0};
      on_threads([&](std::size_t, std::mt19937_64&) {
        if (is_accepted([&] { allocator.deallocate(block); })) ++freed;
      });
      require_freed_once(allocator, freed);
    }
    allocator.check_invariants();
  }
}

TEST_CASE("a free marks each stream whose use any thread recorded, once") {
  CAPTURE(seed());
  ThreadedBench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  const Ledger& ledger = bench.ordered.ledger();
  for (int round = 0; round < 500; ++round) {
    void* const block = allocator.allocate(4096, bench.streams[0]);
    std::array<std::atomic<bool>, ThreadedBench::kThreads> used{};
    on_threads([&](std::size_t, std::mt19937_64& random) {
      for (int i = 0; i < 2; ++i) {
        if (random() % 2 == 0) continue;
        const std::size_t stream = random() % ThreadedBench::kThreads;
        allocator.record_use(block, bench.streams[stream]);
        used[stream] = true;
      }
    });
    std::array<Marker, ThreadedBench::kThreads> before{};
    for (std::size_t s = 0; s < ThreadedBench::kThreads; ++s)
      before[s] = ledger.next(bench.streams[s].id());
    allocator.deallocate(block);
    for (std::size_t s = 1; s < ThreadedBench::kThreads; ++s) {
      CAPTURE(round, s);
      REQUIRE(ledger.next(bench.streams[s].id()) - before[s] == (used[s] ? 1 : 0));
    }
  }
  allocator.check_invariants();
}

TEST_CASE("a block that threads free alone or in a batch or by marker is freed once") {
  for (const Policy& policy : thread_presets()) {
    CAPTURE(policy.name, seed());
    ThreadedBench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy};
    allocator.deallocate(allocator.allocate(4096, bench.streams[0]));  // fronts then expect 4096
    for (int round = 0; round < 500; ++round) {
      void* const block = allocator.allocate(4096, bench.streams[0]);
      const Point marker = bench.ordered.mark(bench.streams[0]);
      std::atomic<int> freed{0};
      on_threads([&](std::size_t, std::mt19937_64& random) {
        const auto deallocate = [&] {
          switch (random() % 3) {
            case 0:
              return allocator.deallocate(block);
            case 1:
              return allocator.deallocate(std::vector<void*>{block});
            default:
              return allocator.deallocate(block, marker);
          }
        };
        if (is_accepted(deallocate)) ++freed;
      });
      require_freed_once(allocator, freed);
    }
    allocator.check_invariants();
  }
}

}  // namespace millrace::test
