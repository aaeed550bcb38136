#include "millrace/device/fault.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using millrace::test::busy;
using millrace::test::CachingBench;
using millrace::test::MiB;

namespace {

std::byte* at(void* address) { return static_cast<std::byte*>(address); }

}  // namespace

TEST_CASE("a range grows by the bytes missing after its last block, if that block is free") {
  CachingBench bench;
  void* const held = bench.allocator.allocate(30 * MiB, bench.main);
  bench.allocator.deallocate(bench.allocator.allocate(50 * MiB, bench.main));
  REQUIRE(bench.reserved() == 80 * MiB);
  void* const larger = bench.allocator.allocate(64 * MiB, bench.main);
  CHECK(larger == at(held) + 30 * MiB);
  CHECK(bench.reserved() == 94 * MiB);
}

TEST_CASE("blocks that a range grew one by one are merged when they are free") {
  CachingBench bench;
  void* const first = bench.allocator.allocate(30 * MiB, bench.main);
  void* const second = bench.allocator.allocate(50 * MiB, bench.main);
  bench.allocator.deallocate(first);
  bench.allocator.deallocate(second);
  CHECK(bench.allocator.allocate(80 * MiB, bench.main) == first);
  CHECK(bench.reserved() == 80 * MiB);
}

TEST_CASE("each stream grows in its own range, where no other stream's block is in its way") {
  CachingBench bench;
  void* const first = bench.allocator.allocate(30 * MiB, bench.main);
  void* const between = bench.allocator.allocate(20 * MiB, bench.copy);
  bench.allocator.deallocate(first);
  CHECK(bench.allocator.allocate(40 * MiB, bench.main) == first);
  CHECK(bench.reserved() == 60 * MiB);
  bench.allocator.deallocate(between);
  CHECK(bench.allocator.allocate(50 * MiB, bench.copy) == between);
  CHECK(bench.reserved() == 90 * MiB);
}

TEST_CASE("a stream uses free memory of another stream's range once it is ordered after it") {
  CachingBench bench;
  void* const theirs = bench.allocator.allocate(30 * MiB, bench.copy);
  bench.allocator.deallocate(theirs);
  const Point used = bench.ordered.mark(bench.copy);
  REQUIRE(bench.ordered.wait_for(bench.main, used));
  CHECK(bench.allocator.allocate(20 * MiB, bench.main) == theirs);
  CHECK(bench.reserved() == 30 * MiB);
}

TEST_CASE("the range of a destroyed stream serves another stream") {
  CachingBench bench;
  std::vector<void*> held;
  for (int i = 0; i < 5; ++i) {
    const Stream passing{bench.ordered, {.name = "passing"}};
    held.push_back(bench.allocator.allocate(4 * MiB, passing));
  }
  CHECK(bench.device.calls(Call::reserve_range) == 1);
  CHECK(bench.reserved() == 20 * MiB);
  for (void* block : held) bench.allocator.deallocate(block);
}

TEST_CASE("more than 16 streams share 16 ranges") {
  CachingBench bench;
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 20; ++i) {
    streams.push_back(std::make_unique<Stream>(bench.ordered, StreamOptions{.name = "one"}));
    CHECK(bench.allocator.allocate(2 * MiB, *streams.back()) != nullptr);
  }
  CHECK(bench.device.calls(Call::reserve_range) == 16);
  CHECK(bench.reserved() == 40 * MiB);
}

TEST_CASE("streams share a range if no addresses are left for another one") {
  CachingBench bench;
  void* const first = bench.allocator.allocate(30 * MiB, bench.main);
  FaultInjector faults{bench.device};
  faults.fail_each(Call::reserve_range, ErrorCode::out_of_memory);
  CHECK(bench.allocator.allocate(20 * MiB, bench.copy) == at(first) + 30 * MiB);
  CHECK(bench.reserved() == 50 * MiB);
}

TEST_CASE("a source without addresses is asked less and less often") {
  CachingBench bench;
  (void)bench.allocator.allocate(2 * MiB, bench.main);
  FaultInjector faults{bench.device};
  faults.fail_each(Call::reserve_range, ErrorCode::out_of_memory);
  const auto before = bench.device.calls(Call::reserve_range);
  for (int i = 0; i < 100; ++i) (void)bench.allocator.allocate(2 * MiB, bench.copy);
  const auto asked = bench.device.calls(Call::reserve_range) - before;
  CHECK(asked >= 1);
  CHECK(asked <= 7);  // it is asked after 1, 2, 4, ... growths
  CHECK(bench.reserved() == 202 * MiB);
}

TEST_CASE("a source that has addresses again is soon asked for them") {
  CachingBench bench;
  void* const first = bench.allocator.allocate(2 * MiB, bench.main);
  {
    FaultInjector faults{bench.device};
    faults.fail_each(Call::reserve_range, ErrorCode::out_of_memory);
    CHECK(bench.allocator.allocate(2 * MiB, bench.copy) == at(first) + 2 * MiB);
  }
  CHECK(bench.allocator.allocate(2 * MiB, bench.copy) == at(first) + 4 * MiB);
  void* const there = bench.allocator.allocate(2 * MiB, bench.copy);
  CHECK(bench.device.calls(Call::reserve_range) >= 2);
  CHECK(bench.allocator.allocate(2 * MiB, bench.copy) == at(there) + 2 * MiB);
}

TEST_CASE("a range does not grow into a last block that another stream may still use") {
  CachingBench bench;
  void* const busy_there = bench.allocator.allocate(30 * MiB, bench.main);
  bench.allocator.record_use(busy_there, bench.copy);
  busy(bench, bench.copy, busy_there, 30 * MiB);
  bench.allocator.deallocate(busy_there);
  void* const grown = bench.allocator.allocate(40 * MiB, bench.main);
  CHECK(grown == at(busy_there) + 30 * MiB);
  CHECK(bench.reserved() == 70 * MiB);
}

TEST_CASE("a third stream waits for earlier users of the block that a range grew into") {
  CachingBench bench;
  Stream third{bench.ordered, {.name = "third"}};
  void* const first = bench.allocator.allocate(30 * MiB, bench.main);
  bench.allocator.record_use(first, bench.copy);
  busy(bench, bench.copy, first, 30 * MiB);
  bench.allocator.deallocate(first);
  REQUIRE(bench.ordered.wait_for(bench.main, bench.ordered.mark(bench.copy)));
  void* const grown = bench.allocator.allocate(40 * MiB, bench.main);
  REQUIRE(grown == first);
  REQUIRE(bench.reserved() == 40 * MiB);
  bench.allocator.deallocate(grown, third);  // does not cover the earlier users
  CHECK(bench.allocator.usable(third).stranded == 40 * MiB);
}

TEST_CASE("a request that fails to map memory leaves no partial growth") {
  CachingBench bench;
  void* const held = bench.allocator.allocate(30 * MiB, bench.main);
  bench.allocator.deallocate(bench.allocator.allocate(50 * MiB, bench.main));
  {
    FaultInjector faults{bench.device};
    faults.fail(Call::map, 1, ErrorCode::unknown);
    CHECK_THROWS_AS(bench.allocator.allocate(64 * MiB, bench.main), DeviceError);
    CHECK(bench.reserved() == 80 * MiB);
    CHECK(bench.allocator.usable(bench.main).largest == 50 * MiB);
    faults.fail_each(Call::map, ErrorCode::out_of_memory);
    CHECK_THROWS_AS(bench.allocator.allocate(64 * MiB, bench.main), out_of_memory);
    CHECK(bench.reserved() == 30 * MiB);  // the free rest was given back in vain
  }
  CHECK(bench.allocator.allocate(64 * MiB, bench.main) == at(held) + 30 * MiB);
}

TEST_CASE("memory that cannot be unmapped stays cached") {
  CachingBench bench;
  bench.allocator.deallocate(bench.allocator.allocate(50 * MiB, bench.main));
  bench.ordered.synchronize();
  FaultInjector faults{bench.device};
  faults.fail(Call::unmap, 1, ErrorCode::unknown);
  CHECK_THROWS_AS(bench.allocator.trim(), DeviceError);
  CHECK(bench.reserved() == 50 * MiB);
  CHECK(bench.allocator.trim() == 50 * MiB);
  CHECK(bench.reserved() == 0);
}

TEST_CASE("trimming gives free pages back wherever they are, and a hole is filled again") {
  CachingBench bench;
  void* const first = bench.allocator.allocate(10 * MiB, bench.main);
  void* const middle = bench.allocator.allocate(21 * MiB - MiB / 4, bench.main);
  void* const last = bench.allocator.allocate(11 * MiB, bench.main);  // begins inside a page
  REQUIRE(bench.reserved() == 42 * MiB);
  bench.allocator.deallocate(middle);
  CHECK(bench.allocator.trim() == 20 * MiB);
  CHECK(bench.reserved() == 22 * MiB);
  CHECK(bench.allocator.layout().size() == 2);
  CHECK(bench.allocator.allocate(20 * MiB, bench.main) == middle);
  CHECK(bench.reserved() == 42 * MiB);
  bench.allocator.deallocate(first);
  bench.allocator.deallocate(last);
  bench.allocator.deallocate(middle);
  CHECK(bench.allocator.trim(8 * MiB) == 34 * MiB);
  CHECK(bench.allocator.trim() == 8 * MiB);
  CHECK(bench.device.memory_info().free == bench.device.memory_info().total);
}

TEST_CASE("on a full device, free pages are moved together into one piece") {
  CachingBench bench{64 * MiB};
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(bench.allocator.allocate(16 * MiB, bench.main));
  bench.allocator.deallocate(blocks[0]);
  bench.allocator.deallocate(blocks[2]);
  CHECK(bench.allocator.allocate(32 * MiB, bench.main) != nullptr);
  CHECK(bench.reserved() == 64 * MiB);
  CHECK(bench.allocator.block_size(blocks[1]) == 16 * MiB);
  CHECK(bench.allocator.block_size(blocks[3]) == 16 * MiB);
}

TEST_CASE("on a full device, free pages are moved to the stream that needs them") {
  CachingBench bench{64 * MiB};
  void* const theirs = bench.allocator.allocate(40 * MiB, bench.copy);
  bench.allocator.deallocate(theirs);
  void* const kept = bench.allocator.allocate(8 * MiB, bench.copy);
  busy(bench, bench.copy, kept, 8 * MiB);
  CHECK(bench.allocator.allocate(50 * MiB, bench.main) != nullptr);
  CHECK(bench.reserved() == 58 * MiB);
  bench.allocator.deallocate(kept);
}

TEST_CASE("threads that grow at once share a range and stay within the limit together") {
  test::Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace(), {.limit = 64 * MiB}};
  std::vector<std::unique_ptr<Executor::Task>> tasks;
  std::vector<void*> served;
  for (int i = 0; i < 8; ++i) {
    tasks.push_back(bench.machine.executor().spawn("grower", [&] {
      try {
        served.push_back(allocator.allocate(20 * MiB, bench.main));
      } catch (const out_of_memory&) {
      }
    }));
  }
  for (auto& task : tasks) task->join();
  CHECK(served.size() == 3);
  allocator.check_invariants();
  CHECK(allocator.statistics().bytes.reserved.peak == 60 * MiB);
  CHECK(allocator.statistics().segments == 1);
}

TEST_CASE("a thread that fails to grow does not undo another thread's growth") {
  test::Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  FaultInjector faults{bench.device};
  allocator.deallocate(allocator.allocate(2 * MiB, bench.main));
  void* second = nullptr;
  struct Meanwhile final : DeviceObserver {
    void before(Call call) override {
      if (call != Call::map || !action) return;
      std::exchange(action, nullptr)();
      throw DeviceError{ErrorCode::unknown, "map", "injected"};
    }
    std::function<void()> action;
  } meanwhile;
  bench.device.add_observer(meanwhile);
  meanwhile.action = [&] { second = allocator.allocate(20 * MiB, bench.main); };
  CHECK_THROWS_AS(allocator.allocate(30 * MiB, bench.main), DeviceError);
  bench.device.remove_observer(meanwhile);
  allocator.check_invariants();
  CHECK(allocator.block_size(second) == 20 * MiB);
  CHECK(allocator.statistics().bytes.reserved.current == 22 * MiB);
  void* const first = allocator.allocate(30 * MiB, bench.main);
  CHECK(at(first) < at(second));  // in the hole and the page before it
  CHECK(allocator.statistics().bytes.reserved.current == 50 * MiB);
}

TEST_CASE("without addresses for a range, memory comes in segments") {
  CachingBench bench;
  FaultInjector faults{bench.device};
  faults.fail_each(Call::reserve_range, ErrorCode::out_of_memory);
  CHECK(bench.allocator.allocate(30 * MiB, bench.main) != nullptr);
  CHECK(bench.device.calls(Call::map) == 0);
  CHECK(bench.reserved() >= 30 * MiB);
}

TEST_CASE("the torch preset and small requests take segments") {
  CachingBench bench;
  CachingAllocator torch{bench.ordered, bench.source, Policy::torch()};
  (void)torch.allocate(30 * MiB, bench.main);
  (void)bench.allocator.allocate(3000, bench.main);
  CHECK(bench.device.calls(Call::reserve_range) == 0);
}
