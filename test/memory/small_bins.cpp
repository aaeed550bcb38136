// Small blocks stay with their stream. They must not hide memory from other requests.

#include <malloc.h>

#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "millrace/memory/observer.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

/// During a report of an allocation, under the allocator's lock, starts a thread that needs that
/// lock.
class Visitor final : public AllocationObserver {
 public:
  explicit Visitor(CachingAllocator& allocator) : allocator_(allocator) {}
  void allocated(const AllocationEvent&) override {
    visit_ = std::thread{[this] { static_cast<void>(allocator_.statistics()); }};
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
  }
  void leave() { visit_.join(); }

 private:
  CachingAllocator& allocator_;
  std::thread visit_;
};

/// Makes two threads compete for the lock. After that, each front keeps its own counts.
void let_threads_meet(CachingAllocator& allocator, const Stream& stream) {
  for (int i = 0; i < 3; ++i) allocator.deallocate(allocator.allocate(4 * KiB, stream));
  Visitor visitor{allocator};
  allocator.observe(&visitor);
  void* const block = allocator.allocate(4 * KiB, stream);
  visitor.leave();
  allocator.observe(nullptr);
  allocator.deallocate(block);
}

}  // namespace

TEST_CASE("memory that a callback frees serves the request before the next callback runs") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace(), {.limit = 2 * MiB}};
  std::vector<void*> live;
  for (int i = 0; i < 4; ++i) live.push_back(allocator.allocate(512 * KiB, bench.main));
  int asked = 0;
  allocator.on_out_of_memory([&](std::size_t) {
    ++asked;
    allocator.deallocate(live[0]);
    return true;
  });
  allocator.on_out_of_memory([&](std::size_t) {
    ++asked;
    return false;
  });
  CHECK(allocator.allocate(512 * KiB, bench.main) == live[0]);
  CHECK(asked == 1);
}

TEST_CASE("a freed small block that was cut from a large segment serves a large request") {
  CachingBench bench;
  CachingAllocator& allocator = bench.allocator;
  void* const large = allocator.allocate(32 * MiB, bench.main);
  const std::size_t reserved = bench.reserved();
  allocator.set_limit(reserved);
  allocator.deallocate(large);
  void* const small = allocator.allocate(4 * KiB, bench.main);  // the limit allows no new segment
  allocator.deallocate(small);
  allocator.set_limit(0);
  CHECK(allocator.allocate(32 * MiB, bench.main) == large);
  CHECK(bench.reserved() == reserved);
}

TEST_CASE("a block used by a destroyed stream serves again, as do the blocks queued after it") {
  CachingBench bench;
  CachingAllocator& allocator = bench.allocator;
  void* const first = allocator.allocate(4 * KiB, bench.main);
  void* const second = allocator.allocate(4 * KiB, bench.main);
  {
    const Stream gone{bench.ordered, {.name = "gone"}};
    allocator.record_use(first, gone);
  }
  bench.ordered.synchronize();
  allocator.record_use(second, bench.copy);
  allocator.deallocate(first);
  allocator.deallocate(second);
  bench.ordered.synchronize();
  void* const one = allocator.allocate(4 * KiB, bench.main);
  void* const other = allocator.allocate(4 * KiB, bench.main);
  CHECK((one == first || one == second));
  CHECK((other == first || other == second));
  CHECK(one != other);
}

TEST_CASE("a freed small block that another stream still uses is active in a scope") {
  CachingBench bench;
  CachingAllocator& allocator = bench.allocator;
  void* const block = allocator.allocate(512 * KiB, bench.main);
  const ScopeId scope = allocator.open_scope();
  allocator.record_use(block, bench.copy);
  busy(bench, bench.copy, block, 512 * KiB);
  allocator.deallocate(block);
  CHECK(allocator.peaks(scope).active.current == 512 * KiB);
  CHECK(allocator.statistics().bytes.active.current == 512 * KiB);
  allocator.close_scope(scope);
  bench.ordered.synchronize();
}

TEST_CASE("a freed small block in use is active once, also with many threads") {
  CachingBench bench;
  CachingAllocator& allocator = bench.allocator;
  let_threads_meet(allocator, bench.main);
  // The second round finds the state that the first one left in the front.
  for (int round = 0; round < 2; ++round) {
    const ScopeId scope = allocator.open_scope();
    void* const block = allocator.allocate(512 * KiB, bench.main);
    allocator.record_use(block, bench.copy);
    busy(bench, bench.copy, block, 512 * KiB);
    allocator.deallocate(block);
    const MemoryGauges seen = allocator.peaks(scope);
    CHECK(seen.active.current == 512 * KiB);
    CHECK(seen.active.peak == 512 * KiB);
    allocator.close_scope(scope);
    bench.ordered.synchronize();
  }
}

TEST_CASE("a block that waited serves again even if the next class has only unfit blocks") {
  CachingBench bench;
  CachingAllocator& allocator = bench.allocator;
  allocator.deallocate(allocator.allocate(32 * MiB, bench.main));  // bins may waste from 16 MiB on
  void* const idle = allocator.allocate(5632, bench.main);
  void* const wall = allocator.allocate(4 * KiB, bench.main);
  std::vector<void*> many;  // more than their bin keeps: the rest can be split
  for (int i = 0; i < 28; ++i) many.push_back(allocator.allocate(64 * KiB, bench.main));
  for (void* const block : many) allocator.deallocate(block);
  allocator.deallocate(idle);
  std::set<void*> seen;
  for (int round = 0; round < 100; ++round) {
    void* const block = allocator.allocate(4 * KiB, bench.main);
    seen.insert(block);
    allocator.record_use(block, bench.copy);
    allocator.deallocate(block);
    bench.main.wait_stream(bench.copy);
  }
  CHECK(seen.size() <= 3);
  allocator.deallocate(wall);
}

TEST_CASE("a small request is served from kept blocks of other classes before memory grows") {
  CachingBench bench;
  CachingAllocator& allocator = bench.allocator;
  void* const much = allocator.allocate(64 * MiB, bench.main);  // so that bins keep small blocks
  std::vector<void*> small;
  for (int i = 0; i < 32; ++i) small.push_back(allocator.allocate(64 * KiB, bench.main));
  const std::size_t before = bench.reserved();  // makes kept blocks visible to all streams
  for (void* const block : small) allocator.deallocate(block);
  // Kept blocks of an eighth of the request or more are merged first. These are smaller.
  void* const merged = allocator.allocate(1 * MiB, bench.main);
  CHECK(bench.reserved() == before);
  allocator.deallocate(merged);
  allocator.deallocate(much);
}

TEST_CASE("without a pool for small blocks, kept ones are merged for a large request") {
  Bench bench;
  Policy policy = exact_segments(Policy::millrace());
  policy.small_limit = 0;
  policy.large_remainder = policy.granule;
  CachingAllocator allocator{bench.ordered, bench.source, policy};
  std::vector<void*> kept;
  for (int i = 0; i < 32; ++i) kept.push_back(allocator.allocate(64 * KiB, bench.main));
  const std::size_t before = allocator.statistics().bytes.reserved.current;
  REQUIRE(before == 2 * MiB);
  for (void* const block : kept) allocator.deallocate(block);
  void* const large = allocator.allocate(2 * MiB, bench.main);
  CHECK(allocator.statistics().bytes.reserved.current == before);
  allocator.deallocate(large);
  // An eighth of 512 MiB is larger than the blocks of any class.
  allocator.deallocate(allocator.allocate(64 * KiB, bench.main));
  allocator.deallocate(allocator.allocate(512 * MiB, bench.main));
  allocator.check_invariants();
}

TEST_CASE("repeated transfers take no more host memory after 20,000 frees than after 100") {
  CachingBench bench;
  CachingAllocator& allocator = bench.allocator;
  const auto rounds = [&](int count) {
    for (int round = 0; round < count; ++round) {
      void* const block = allocator.allocate(4 * KiB, bench.main);
      allocator.transfer(block, bench.copy);
      allocator.transfer(block, bench.main);
      allocator.deallocate(block);
      bench.main.wait_stream(bench.copy);
      if (round % 100 == 0) bench.ordered.synchronize();
    }
    return mallinfo2().uordblks;
  };
  const std::size_t before = rounds(100);
  CHECK(rounds(20'000) < before + 256 * KiB);
}

}  // namespace millrace::test
