// A stream's front serves requests without the allocator's lock. Results and counts must be the
// same as under the lock.

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "millrace/memory/observer.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"
#include "test/support/threaded_device.hpp"

namespace millrace::test {
namespace {

struct Outcome {
  std::vector<std::size_t> blocks;  // numbers by first appearance, as addresses may vary
  MemoryStatistics statistics;
};

/// Runs a random program: few sizes, three streams, some uses by other streams, some markers.
Outcome run_front(bool is_observed) {
  Bench bench;
  Stream third{bench.ordered, {.name = "third"}};
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  AllocationObserver observer;
  if (is_observed) allocator.observe(&observer);
  const Tag rows = allocator.tag("rows");
  const std::vector<StreamRef> streams{bench.main, bench.copy, third};
  std::mt19937_64 random{seed()};
  std::vector<void*> live;
  std::map<void*, std::size_t> numbers;
  Outcome outcome;
  for (int step = 0; step < 4000; ++step) {
    const StreamRef stream = streams[random() % 3];
    const auto what = random() % 20;
    if (what == 0) {
      bench.ordered.mark(stream);
    } else if (what < 11 || live.empty()) {
      const std::size_t bytes = 700 << (random() % 4 * 4);
      live.push_back(allocator.allocate(bytes, stream, stream, what % 2 == 0 ? rows : Tag{}));
      outcome.blocks.push_back(numbers.try_emplace(live.back(), numbers.size()).first->second);
    } else {
      std::swap(live[random() % live.size()], live.back());
      if (what == 19) allocator.record_use(live.back(), stream);
      allocator.deallocate(live.back());
      live.pop_back();
    }
  }
  for (void* const address : live) allocator.deallocate(address);
  allocator.check_invariants();
  outcome.statistics = allocator.statistics();
  return outcome;
}

}  // namespace

TEST_CASE("an allocator gives out the same blocks whether or not it is observed") {
  const Outcome alone = run_front(false), observed = run_front(true);
  CHECK(alone.blocks == observed.blocks);
  const MemoryGauges &a = alone.statistics.bytes, &b = observed.statistics.bytes;
  CHECK(a.requested.peak == b.requested.peak);
  CHECK(a.allocated.peak == b.allocated.peak);
  CHECK(a.active.peak == b.active.peak);
  CHECK(a.reserved.peak == b.reserved.peak);
  CHECK(a.cached.peak == b.cached.peak);
  CHECK(alone.statistics.counts.allocations == observed.statistics.counts.allocations);
  CHECK(alone.statistics.counts.served_own == observed.statistics.counts.served_own);
  REQUIRE(alone.statistics.streams.size() == observed.statistics.streams.size());
  for (std::size_t i = 0; i < alone.statistics.streams.size(); ++i) {
    CHECK(alone.statistics.streams[i].allocated.peak ==
          observed.statistics.streams[i].allocated.peak);
  }
  REQUIRE(alone.statistics.tags.size() == 2);
  CHECK(alone.statistics.tags[1].allocated.peak == observed.statistics.tags[1].allocated.peak);
}

TEST_CASE("threads on their own streams, and threads that free for others, leave exact counts") {
  constexpr std::size_t kThreads = 4;
  constexpr int kSteps = 3000;
  constexpr std::size_t kBytes = MiB / 4, kPerThread = 8;
  ThreadedDevice device{std::size_t{1} << 28};
  OrderedDevice ordered{device};
  DeviceSource source{device};
  CachingAllocator allocator{ordered, source, Policy::millrace()};
  std::atomic<std::uint64_t> allocations{0}, impossible{0};
  {
    std::vector<Stream> streams;
    for (std::size_t i = 0; i < kThreads; ++i) streams.emplace_back(ordered);
    // A thread puts some blocks into any slot and frees the slot's former block, which may be
    // another thread's.
    std::vector<std::atomic<void*>> handed(kThreads);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random{seed() + t};
        std::vector<void*> live;
        for (int step = 0; step < kSteps; ++step) {
          if (live.size() < kPerThread && random() % 2 == 0) {
            const std::size_t bytes = random() % 8 == 0 ? kBytes + 512 * (random() % 64) : kBytes;
            live.push_back(allocator.allocate(bytes, streams[t]));
            ++allocations;
          } else if (!live.empty()) {
            void* const old =
                random() % 4 == 0 ? handed[random() % kThreads].exchange(live.back()) : live.back();
            live.pop_back();
            allocator.deallocate(old);
          }
          if (step % 500 != 0) continue;
          const MemoryGauges now = allocator.statistics().bytes;
          if (now.allocated.current > now.reserved.current) ++impossible;
        }
        for (void* const address : live) allocator.deallocate(address);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& address : handed) allocator.deallocate(address.load());
  }
  allocator.check_invariants();
  const MemoryStatistics end = allocator.statistics();
  CHECK(impossible == 0);
  CHECK(end.live_blocks == 0);
  CHECK(end.bytes.allocated.current == 0);
  CHECK(end.bytes.requested.current == 0);
  CHECK(end.counts.allocations == allocations);
  CHECK(end.counts.frees == allocations);
  CHECK(end.bytes.allocated.peak >= kBytes);
  CHECK(end.bytes.allocated.peak <= (kThreads * (kPerThread + 1)) * (kBytes + 64 * 512));
}

TEST_CASE("a thread looks at all blocks while another one makes pairs") {
  ThreadedDevice device{std::size_t{1} << 28};
  OrderedDevice ordered{device};
  DeviceSource source{device};
  const Stream stream{ordered};
  CachingAllocator allocator{ordered, source, Policy::millrace()};
  const auto pairs = [&] {
    std::vector<void*> blocks;
    for (std::size_t i = 0; i < 16; ++i) {
      blocks.push_back(allocator.allocate(4096 + 512 * i, stream));
    }
    for (void* const block : blocks) allocator.deallocate(block);
  };
  pairs();  // later calls do not grow, so no block is claimed while this thread looks
  std::atomic<bool> done{false};
  std::thread other{[&] {
    while (!done) pairs();
  }};
  AllocationObserver observer;
  std::size_t wrong = 0;
  for (int round = 0; round < 300; ++round) {
    for (const CachingAllocator::SegmentLayout& segment : allocator.layout()) {
      std::size_t bytes = 0;
      for (const CachingAllocator::BlockLayout& block : segment.blocks) bytes += block.bytes;
      if (bytes != segment.bytes) ++wrong;
    }
    const MemoryGauges now = allocator.statistics().bytes;
    if (now.allocated.current > now.reserved.current) ++wrong;
    allocator.report_all(observer);
    allocator.observe_all(observer);
    allocator.observe(nullptr);
    CHECK_NOTHROW(allocator.check_invariants());
    std::this_thread::yield();
  }
  done = true;
  other.join();
  CHECK(wrong == 0);
  CHECK(allocator.statistics().live_blocks == 0);
}

// `looked` is relaxed, so only the allocator orders the look before the free. ThreadSanitizer
// reports a race if the allocator does not.
TEST_CASE("a block that was looked at is freed and given out by another thread after the look") {
  constexpr int kRounds = 60;
  ThreadedDevice device{std::size_t{1} << 28};
  OrderedDevice ordered{device};
  DeviceSource source{device};
  const Stream stream{ordered};
  CachingAllocator allocator{ordered, source, Policy::millrace()};
  AllocationObserver observer;
  std::atomic<int> looked{0}, used{0};
  std::thread other{[&] {
    void* block = allocator.allocate(4096, stream);
    for (int round = 0; round < kRounds; ++round) {
      used.store(round + 1, std::memory_order_release);
      while (looked.load(std::memory_order_relaxed) <= round) std::this_thread::yield();
      allocator.deallocate(block);
      block = allocator.allocate(4096, stream);
    }
    allocator.deallocate(block);
  }};
  for (int round = 0; round < kRounds; ++round) {
    while (used.load(std::memory_order_acquire) <= round) std::this_thread::yield();
    switch (round % 5) {
      case 0:
        CHECK(allocator.layout().size() == 1);
        break;
      case 1:
        allocator.report_all(observer);
        break;
      case 2:
        CHECK_NOTHROW(allocator.check_invariants());
        break;
      case 3:
        CHECK(allocator.usable(stream).total > 0);
        break;
      case 4:
        allocator.observe_all(observer);
        allocator.observe(nullptr);
        break;
    }
    looked.store(round + 1, std::memory_order_relaxed);
  }
  other.join();
  CHECK(allocator.statistics().live_blocks == 0);
}

TEST_CASE("nothing is lost when two threads meet for the first time") {
  constexpr int kRounds = 200, kPairs = 50;
  ThreadedDevice device{std::size_t{1} << 28};
  OrderedDevice ordered{device};
  DeviceSource source{device};
  std::vector<Stream> streams;
  for (int t = 0; t < 2; ++t) streams.emplace_back(ordered);
  for (int round = 0; round < kRounds; ++round) {
    CachingAllocator allocator{ordered, source, Policy::millrace()};
    std::atomic<int> ready{0};
    std::vector<void*> kept(2);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 2; ++i) allocator.deallocate(allocator.allocate(4096, streams[t]));
        for (++ready; ready < 2;) std::this_thread::yield();
        for (int i = 0; i < kPairs; ++i) {
          allocator.deallocate(allocator.allocate(4096, streams[t]));
        }
        kept[t] = allocator.allocate(4096, streams[t]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const MemoryStatistics now = allocator.statistics();
    REQUIRE(now.counts.allocations == 2 * (kPairs + 3));
    REQUIRE(now.counts.frees == 2 * (kPairs + 2));
    REQUIRE(now.bytes.allocated.current == std::size_t{2} * 4096);
    REQUIRE(now.bytes.allocated.peak == std::size_t{2} * 4096);
    for (void* const address : kept) allocator.deallocate(address);
    allocator.check_invariants();
  }
}

TEST_CASE("a stream's share is exact when the next stream of its slot owns memory") {
  const bool is_transferred = GENERATE(false, true);
  CAPTURE(is_transferred);
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  std::uint32_t slot = 0;
  void* kept = nullptr;
  {
    Stream first{bench.ordered, {.name = "first"}};
    slot = first.id().slot;
    kept = allocator.allocate(2 * MiB, first);
    allocator.transfer(kept, bench.main);
    for (int i = 0; i < 3; ++i) allocator.deallocate(allocator.allocate(MiB / 8, first));
    // The front holds the block and has counted its free. The meter has only the allocation.
    allocator.deallocate(allocator.allocate(MiB / 4, first));
  }
  bench.ordered.synchronize();
  Stream second{bench.ordered, {.name = "second"}};
  REQUIRE(second.id().slot == slot);
  void* owned = nullptr;
  if (is_transferred) {
    owned = allocator.allocate(MiB, bench.main);
    allocator.transfer(owned, second);
  } else {
    owned = allocator.allocate(MiB, second, bench.copy);
  }
  std::size_t of_all = 0, of_second = 0;
  for (const ShareStatistics& share : allocator.statistics().streams) {
    CHECK(share.allocated.current <= 3 * MiB);
    of_all += share.allocated.current;
    if (share.stream == second.id()) of_second = share.allocated.current;
  }
  CHECK(of_second == MiB);
  CHECK(of_all == 3 * MiB);
  allocator.deallocate(owned);
  allocator.deallocate(kept);
  for (const ShareStatistics& share : allocator.statistics().streams) {
    CHECK(share.allocated.current == 0);
  }
  allocator.check_invariants();
}

TEST_CASE("one-shot streams leave nothing in the front that they shared") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  std::set<std::uint32_t> slots;
  for (int i = 0; i < 50; ++i) {
    {
      Stream stream{bench.ordered, {.name = "once"}};
      slots.insert(stream.id().slot);
      allocator.deallocate(allocator.allocate(MiB / 4, stream));
      allocator.deallocate(allocator.allocate(MiB / 4, stream));
    }
    bench.ordered.synchronize();
  }
  REQUIRE(slots.size() == 1);
  CHECK(allocator.statistics().bytes.reserved.current <= 2 * MiB);  // 12.5 MiB without reuse
  allocator.check_invariants();
}

}  // namespace millrace::test
