// Limits, headroom, moved pages, batches and fixed pools, with several threads at once.

#include <algorithm>
#include <atomic>
#include <barrier>
#include <random>
#include <thread>
#include <vector>

#include "millrace/memory/fixed_pool.hpp"
#include "test/support/catch.hpp"
#include "test/support/forwarding_device.hpp"
#include "test/support/threaded_bench.hpp"

namespace millrace::test {
namespace {

/// Holds up to 6 blocks of up to 12 MiB. Frees all of them at the end and when a request fails.
void come_and_go(CachingAllocator& allocator, const Stream& stream, std::mt19937_64& random,
                 int steps) {
  std::vector<void*> live;
  const auto free_all = [&] {
    for (void* const address : live) allocator.deallocate(address);
    live.clear();
  };
  for (int step = 0; step < steps; ++step) {
    try {
      live.push_back(allocator.allocate(1 + random() % (12 * MiB), stream));
    } catch (const out_of_memory&) {
      free_all();
    }
    if (live.size() == 6 || random() % 16 == 0) free_all();
    if (random() % 32 == 0) static_cast<void>(allocator.trim(random() % (32 * MiB)));
  }
  free_all();
}

/// Allocates blocks until a request fails. Then all threads hold their blocks at the same time.
void fill_up(CachingAllocator& allocator, const Stream& stream, std::barrier<>& together) {
  std::vector<void*> live;
  together.arrive_and_wait();
  try {
    for (;;) live.push_back(allocator.allocate(2 * MiB, stream));
  } catch (const out_of_memory&) {
  }
  together.arrive_and_wait();
  for (void* const address : live) allocator.deallocate(address);
}

}  // namespace

TEST_CASE("several threads never take more than the limit from the device") {
  for (const Policy& policy : thread_presets()) {
    CAPTURE(policy.name, seed());
    ThreadedBench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy, {.limit = 40 * MiB}};
    on_threads([&](std::size_t t, std::mt19937_64& random) {
      come_and_go(allocator, bench.streams[t], random, 300);
    });
    CHECK(bench.source.most() <= 40 * MiB);
    CHECK(bench.source.most() > 30 * MiB);
    CHECK(allocator.statistics().bytes.reserved.peak <= 40 * MiB);
    CHECK(allocator.statistics().live_blocks == 0);
    allocator.check_invariants();
  }
}

TEST_CASE("pages move while several threads use their blocks, and each reads what it wrote") {
  CAPTURE(seed());
  ThreadedBench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace(), {.limit = 96 * MiB}};
  std::atomic<std::size_t> refused{0}, checked{0}, corrupted{0};
  on_threads([&](std::size_t t, std::mt19937_64& random) {
    const Stream& stream = bench.streams[t];
    struct Block {
      void* address;
      std::size_t bytes;
      unsigned char value;
    };
    std::vector<Block> live;
    const auto free_one = [&] {
      std::swap(live[random() % live.size()], live.back());
      const Block block = live.back();
      live.pop_back();
      Operation check;
      check.views = {{block.address, block.bytes, Access::read}};
      check.host = [&, block](const KernelContext& memory) {
        const auto right = [&](std::byte at) { return at == std::byte{block.value}; };
        ++checked;
        if (!std::ranges::all_of(memory.bytes(0), right)) ++corrupted;
      };
      bench.device.launch(std::move(check), stream.handle());
      allocator.deallocate(block.address);  // the check may still be queued
    };
    for (int step = 0; step < 150; ++step) {
      const auto value = static_cast<unsigned char>(t * 64 + static_cast<unsigned>(step) % 64);
      const std::size_t bytes = (1U << 20U) + random() % (7 * MiB);
      try {
        live.push_back({allocator.allocate(bytes, stream), bytes, value});
        bench.device.fill(live.back().address, value, bytes, stream.handle());
      } catch (const out_of_memory&) {
        ++refused;
        while (!live.empty()) free_one();
      }
      while (live.size() > random() % 6) free_one();
    }
    while (!live.empty()) free_one();
  });
  bench.device.synchronize();
  const MemoryStatistics end = allocator.statistics();
  CHECK(corrupted == 0);
  CHECK(checked == ThreadedBench::kThreads * 150 - refused);
  CHECK(end.counts.bytes_moved > 0);
  CHECK(end.live_blocks == 0);
  CHECK(bench.source.most() <= 96 * MiB);
  allocator.check_invariants();
}

TEST_CASE("several threads leave the headroom on the device") {
  for (const Policy& policy : thread_presets()) {
    CAPTURE(policy.name, seed());
    ThreadedBench bench;
    CachingAllocator allocator{
        bench.ordered, bench.source, policy, {.headroom = ThreadedBench::kMemory / 2}};
    // `come_and_go` alone may not fill the memory: how much the threads hold at once varies.
    std::barrier together{static_cast<std::ptrdiff_t>(ThreadedBench::kThreads)};
    on_threads([&](std::size_t t, std::mt19937_64& random) {
      come_and_go(allocator, bench.streams[t], random, 300);
      fill_up(allocator, bench.streams[t], together);
    });
    CHECK(bench.source.most() <= ThreadedBench::kMemory / 2);
    CHECK(bench.source.most() > ThreadedBench::kMemory / 4);
    CHECK(allocator.statistics().live_blocks == 0);
    allocator.check_invariants();
  }
}

TEST_CASE("a limit or a headroom that is set while threads grow holds for later requests") {
  for (const Policy& policy : thread_presets()) {
    CAPTURE(policy.name, seed());
    ThreadedBench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy};
    std::thread setter{[&] {
      std::mt19937_64 random{seed()};
      for (int i = 0; i < 100; ++i) {
        allocator.set_limit(random() % ThreadedBench::kMemory);
        std::this_thread::yield();
        allocator.set_headroom(random() % ThreadedBench::kMemory);
      }
      allocator.set_limit(64 * MiB);
      allocator.set_headroom(ThreadedBench::kMemory / 2);
    }};
    const auto all = [&](std::size_t t, std::mt19937_64& random) {
      come_and_go(allocator, bench.streams[t], random, 200);
    };
    on_threads(all);
    setter.join();
    static_cast<void>(allocator.trim());
    bench.source.forget_most();
    on_threads(all);
    CHECK(bench.source.most() <= 64 * MiB);
    allocator.set_limit(0);
    on_threads(all);
    CHECK(bench.source.most() <= ThreadedBench::kMemory / 2);
    allocator.check_invariants();
  }
}

TEST_CASE("memory that another thread has just acquired counts once against the headroom") {
  class Counting final : public ForwardingDevice {
   public:
    using ForwardingDevice::ForwardingDevice;
    int asked = 0;  // not atomic: one actor runs at a time

   private:
    MemoryInfo do_memory_info() override {
      ++asked;
      return ForwardingDevice::do_memory_info();
    }
  };
  class Slow final : public SegmentSource {
   public:
    Slow(Executor& executor, Counting& device) : executor_(executor), device_(device) {}
    void* acquire(std::size_t bytes) override {
      void* const base = device_.allocate(bytes);
      while (!has_other_ended && first_ && device_.asked < 10) {
        executor_.spend(std::chrono::microseconds{1});
      }
      first_ = false;
      return base;
    }
    void release(void* base, std::size_t) override { device_.free(base); }
    std::size_t granularity() const override { return 2 * MiB; }
    bool has_other_ended = false;

   private:
    Executor& executor_;
    Counting& device_;
    bool first_ = true;
  };
  Bench bench{128 * MiB};
  Counting device{bench.device};
  OrderedDevice ordered{device};
  const Stream stream{ordered, {.name = "stream"}};
  Executor& executor = bench.machine.executor();
  Slow source{executor, device};
  CachingAllocator allocator{ordered, source, Policy::torch(), {.headroom = 64 * MiB}};
  int served = 0;
  const auto grow = [&](bool is_first) {
    return [&, is_first] {
      if (!is_first) executor.spend(std::chrono::milliseconds{1});
      try {
        if (allocator.allocate(32 * MiB, stream) != nullptr) ++served;
      } catch (const out_of_memory&) {
      }
      if (!is_first) source.has_other_ended = true;
    };
  };
  const auto first = executor.spawn("first", grow(true)),
             second = executor.spawn("second", grow(false));
  first->join();
  second->join();
  CHECK(served == 2);
  CHECK(bench.device.memory_info().free == 64 * MiB);
}

TEST_CASE("batches of several threads are complete or fail, and leave exact counts") {
  for (const Policy& policy : thread_presets()) {
    for (const bool is_shared : {false, true}) {
      CAPTURE(policy.name, is_shared, seed());
      ThreadedBench bench;
      CachingAllocator allocator{bench.ordered, bench.source, policy, {.limit = 24 * MiB}};
      std::atomic<std::uint64_t> frees{0}, refused{0}, partial{0};
      on_threads([&](std::size_t t, std::mt19937_64& random) {
        const Stream& stream = bench.streams[is_shared ? 0 : t];
        std::vector<void*> kept;
        for (int round = 0; round < 200; ++round) {
          std::vector<std::size_t> sizes(1 + random() % 16);
          for (std::size_t& bytes : sizes) {
            bytes = random() % 2 == 0 ? 4096 : 1 + random() % (4 * MiB);
          }
          std::vector<void*> got(sizes.size());
          try {
            allocator.allocate(sizes, got, stream);
            if (std::ranges::count(got, nullptr) != 0) ++partial;
          } catch (const out_of_memory&) {
            ++refused;
            if (std::ranges::count(got, nullptr) != std::ssize(got)) ++partial;
            got.clear();
          }
          if (random() % 4 == 0) {
            for (void* const address : got) {
              allocator.record_use(address, bench.streams[(t + 1) % ThreadedBench::kThreads]);
            }
          }
          kept.insert(kept.end(), got.begin(), got.end());
          if (kept.size() < 8 && !got.empty()) continue;
          std::ranges::shuffle(kept, random);
          allocator.deallocate(kept);
          frees += kept.size();
          kept.clear();
        }
        allocator.deallocate(kept);
        frees += kept.size();
      });
      const MemoryStatistics end = allocator.statistics();
      CHECK(partial == 0);
      CHECK(refused > 0);
      CHECK(end.live_blocks == 0);
      CHECK(end.bytes.allocated.current == 0);
      CHECK(end.bytes.requested.current == 0);
      CHECK(end.counts.allocations == end.counts.frees);
      CHECK(end.counts.frees >= frees);
      CHECK(bench.source.most() <= 24 * MiB);
      allocator.check_invariants();
    }
  }
}

TEST_CASE("a fixed pool that threads share keeps to its maximum, and its blocks are ordered") {
  constexpr std::size_t kBlock = 64 << 10, kMost = 4 * MiB;
  ThreadedBench bench;
  FixedPool pool{bench.ordered,
                 bench.source,
                 {.block_bytes = kBlock, .blocks_at_once = 32, .most_bytes = kMost}};
  std::atomic<std::size_t> mixed{0}, refused{0};
  on_threads([&](std::size_t t, std::mt19937_64& random) {
    const Stream& stream = bench.streams[t];
    std::vector<void*> live;
    for (int step = 0; step < 400; ++step) {
      std::vector<void*> got(1 + random() % 8);
      try {
        pool.allocate(got, stream);
      } catch (const out_of_memory&) {
        ++refused;
        got.clear();
      }
      // The writes are plain, so ThreadSanitizer reports unordered ones. So does the check below.
      for (void* const address : got) {
        const auto mark = static_cast<unsigned char>(1 + random() % 255);
        const auto work = [&mixed, address, mark, at = random() % kBlock](const KernelContext&) {
          auto* const bytes = static_cast<volatile unsigned char*>(address);
          bytes[0] = mark;
          bytes[at] = mark;
          std::this_thread::yield();
          if (bytes[0] != mark || bytes[at] != mark) ++mixed;
        };
        bench.device.launch({.name = "work",
                             .views = {{address, kBlock, Access::read_write}},
                             .cost = {},
                             .host = work,
                             .cuda = {}},
                            stream.handle());
      }
      live.insert(live.end(), got.begin(), got.end());
      if (live.size() < 60 && !got.empty()) continue;
      pool.memory().deallocate(live);
      live.clear();
    }
    pool.memory().deallocate(live);
  });
  bench.ordered.synchronize();
  CHECK(mixed == 0);
  CHECK(refused > 0);
  CHECK(bench.source.most() <= kMost);
  CHECK(pool.memory().statistics().bytes.reserved.peak <= kMost);
  CHECK(pool.memory().statistics().live_blocks == 0);
  pool.memory().check_invariants();
}

}  // namespace millrace::test
