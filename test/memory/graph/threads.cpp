// Captures with several threads.

#include <atomic>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/graph_pool.hpp"
#include "millrace/memory/out_of_memory.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"
#include "test/support/threaded_device.hpp"

namespace millrace::test {
TEST_CASE("a thread captures while others allocate", "[graph]") {
  ThreadedDevice device{std::size_t{1} << 28};
  OrderedDevice ordered{device};
  DeviceSource source{device};
  CachingAllocator allocator{ordered, source, Policy::millrace()};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      Stream stream{ordered};
      std::mt19937_64 random{seed() + static_cast<std::uint64_t>(thread)};
      std::vector<void*> live;
      while (!done) {
        if (live.size() < 20 && random() % 2 == 0) {
          live.push_back(allocator.allocate((random() % 300 + 1) * KiB, stream));
        } else if (!live.empty()) {
          allocator.deallocate(live.back());
          live.pop_back();
        }
      }
      for (void* const address : live) allocator.deallocate(address);
    });
  }
  Stream stream{ordered};
  std::optional<GraphPool> pool;
  for (int round = 0; round < 200; ++round) {
    if (round % 8 == 0) pool.emplace(allocator);
    GraphCapture capture{*pool, stream};
    std::vector<void*> live;
    for (int i = 0; i < 20; ++i) live.push_back(allocator.allocate(100 * KiB, stream));
    for (void* const address : live) allocator.deallocate(address);
    if (round % 3 == 0) continue;  // abandoned
    capture.end();
    pool->launched(stream);
    stream.mark();
  }
  pool.reset();
  done = true;
  for (std::thread& thread : threads) thread.join();
  const MemoryStatistics now = allocator.statistics();
  CHECK(now.graph_pools.pools == 0);
  CHECK(now.live_blocks == 0);
  allocator.check_invariants();
}

TEST_CASE("threads of a capture do not see each other's failures", "[graph]") {
  ThreadedDevice device{std::size_t{1} << 28};
  OrderedDevice ordered{device};
  DeviceSource source{device};
  CachingAllocator allocator{ordered, source, Policy::millrace()};
  Stream modest{ordered}, greedy{ordered};
  const GraphPool pool{allocator};
  std::atomic<std::size_t> asked{0}, refused{0}, misled{0};
  for (int round = 0; round < 8; ++round) {
    GraphCapture capture{pool, modest};
    capture.wait(greedy, {});
    std::atomic<bool> done{false};
    std::thread other{[&] {
      while (!done) {
        try {
          allocator.deallocate(allocator.allocate(1000 * MiB, greedy));
        } catch (const out_of_memory& error) {
          misled += error.picture().requested == 1000 * MiB ? 0 : 1;
        }
        ++asked;
      }
    }};
    std::vector<void*> live;
    try {
      while (live.size() < 40) {
        const std::size_t before = asked;
        while (asked == before) std::this_thread::yield();
        live.push_back(allocator.allocate(2 * MiB, modest));
      }
    } catch (const out_of_memory&) {
      ++refused;
    }
    done = true;
    other.join();
    for (void* const address : live) allocator.deallocate(address);
  }
  CHECK(refused == 0);
  CHECK(misled == 0);
}

}  // namespace millrace::test
