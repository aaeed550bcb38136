#include <chrono>
#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "memory/move_patience.hpp"
#include "millrace/device/fault.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/forwarding_source.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using millrace::test::busy;
using millrace::test::MiB;

namespace {

struct GrowthBench : test::CachingBench {
  [[nodiscard]] std::size_t moved() { return allocator.statistics().counts.bytes_moved; }

  /// Allocates adjacent blocks of 30 MiB on `stream`, then frees every second one and waits for it.
  std::vector<void*> comb(const Stream& stream, std::size_t blocks) {
    std::vector<void*> held, freed;
    for (std::size_t i = 0; i < blocks; ++i) {
      (i % 2 == 0 ? held : freed).push_back(allocator.allocate(30 * MiB, stream));
    }
    for (void* const address : freed) allocator.deallocate(address);
    ordered.mark(stream);
    ordered.synchronize();
    return held;
  }
};

}  // namespace

TEST_CASE("before growth, frees without a marker are marked, and complete ones are reused") {
  GrowthBench bench;
  void* const used = bench.allocator.allocate(64 * MiB, bench.copy);
  bench.allocator.deallocate(used);
  static_cast<void>(bench.allocator.allocate(64 * MiB, bench.main));
  REQUIRE(bench.reserved() == 128 * MiB);
  bench.device.synchronize();
  CHECK(bench.allocator.allocate(64 * MiB, bench.main) == used);
  CHECK(bench.reserved() == 128 * MiB);
}

TEST_CASE("memory that was marked before growth is not reused while its work runs") {
  GrowthBench bench;
  void* const used = bench.allocator.allocate(64 * MiB, bench.copy);
  busy(bench, bench.copy, used, 64 * MiB);
  bench.allocator.deallocate(used);
  CHECK(bench.allocator.allocate(64 * MiB, bench.main) != used);
  CHECK(bench.reserved() == 128 * MiB);
}

TEST_CASE("complete pages are moved to form the contiguous range that a request needs") {
  GrowthBench bench;
  bench.comb(bench.main, 8);
  REQUIRE(bench.reserved() == 240 * MiB);
  static_cast<void>(bench.allocator.allocate(100 * MiB, bench.main));
  CHECK(bench.reserved() == 240 * MiB);
  CHECK(bench.moved() == 70 * MiB);  // the last block's 30 MiB are free in place
}

TEST_CASE("pages that the device still uses are moved for a stream that is ordered after the use") {
  const bool is_ordered = GENERATE(true, false);
  CAPTURE(is_ordered);
  GrowthBench bench;
  void* const first = bench.allocator.allocate(30 * MiB, bench.main);
  static_cast<void>(bench.allocator.allocate(30 * MiB, bench.main));
  busy(bench, bench.main, first, 30 * MiB);
  bench.allocator.deallocate(first);
  const Stream& user = is_ordered ? bench.main : bench.copy;
  void* const large = bench.allocator.allocate(60 * MiB, user);
  CHECK(bench.moved() == (is_ordered ? 30 * MiB : 0));
  CHECK(bench.reserved() == (is_ordered ? 90 : 120) * MiB);
  CHECK(bench.device.memory_info().total - bench.device.memory_info().free ==
        (is_ordered ? 90 : 120) * MiB);
  busy(bench, user, large, 60 * MiB);
  CHECK_NOTHROW(bench.device.synchronize());
}

TEST_CASE("old addresses of moved pages are unmapped when they exceed the reserved bytes") {
  const bool in_use = GENERATE(true, false);
  CAPTURE(in_use);
  test::Bench bench;
  Policy policy = Policy::millrace();
  policy.moved_before_growth = std::numeric_limits<double>::infinity();
  CachingAllocator allocator{bench.ordered, bench.source, policy};
  for (std::size_t round = 1; round <= 8; ++round) {  // each moves 32 MiB, grows by 12 MiB
    void* const first = allocator.allocate(32 * MiB, bench.main);
    static_cast<void>(allocator.allocate(12 * MiB, bench.main));
    if (in_use) busy(bench, bench.main, first, 32 * MiB);
    allocator.deallocate(first);
    allocator.deallocate(allocator.allocate(64 * MiB, bench.main));
    const MemoryStatistics now = allocator.statistics();
    CHECK(now.counts.bytes_moved == round * 32 * MiB);
    CHECK(now.bytes.reserved.current == (64 + round * 12) * MiB);
    // Before this round grew, 32 * (round - 1) MiB were mapped at two addresses, and
    // 52 + 12 * round MiB were reserved. A gap of 64 MiB does not fit into a hole of 32 MiB.
    CHECK((bench.device.calls(Call::unmap) > 0) == (!in_use && round >= 5));
    if (!in_use) bench.ordered.synchronize();
    allocator.check_invariants();
  }
  const MemoryInfo info = bench.device.memory_info();
  CHECK(info.total - info.free == allocator.statistics().bytes.reserved.current);
}

TEST_CASE("a gap unmaps only the old addresses of moved pages that it needs") {
  struct UnmapsSource final : test::ForwardingSource {
    using ForwardingSource::ForwardingSource;
    void end_move(void* from, std::size_t bytes) override {
      unmapped.push_back(bytes);
      ForwardingSource::end_move(from, bytes);
    }
    std::vector<std::size_t> unmapped;
  };
  test::Bench bench;
  UnmapsSource source{bench.source};
  CachingAllocator allocator{bench.ordered, source, Policy::millrace()};
  void* const before = allocator.allocate(30 * MiB, bench.main);
  void* const moved = allocator.allocate(30 * MiB, bench.main);
  void* const behind = allocator.allocate(30 * MiB, bench.main);
  allocator.deallocate(moved);
  void* const large = allocator.allocate(60 * MiB, bench.main);
  REQUIRE(allocator.statistics().counts.bytes_moved == 30 * MiB);
  allocator.deallocate(before);
  void* const joined = allocator.allocate(40 * MiB, bench.main);
  CHECK(joined == before);
  CHECK(source.unmapped == std::vector<std::size_t>{10 * MiB});
  allocator.check_invariants();
  for (void* const address : {behind, large, joined}) allocator.deallocate(address);
  allocator.trim();
  CHECK(source.unmapped == std::vector<std::size_t>{10 * MiB, 20 * MiB});
  CHECK(bench.device.memory_info().free == bench.device.memory_info().total);
}

TEST_CASE("released memory has no mapping left, even if work on its old address still runs") {
  GrowthBench bench;
  void* const first = bench.allocator.allocate(30 * MiB, bench.main);
  void* const second = bench.allocator.allocate(30 * MiB, bench.main);
  busy(bench, bench.main, first, 30 * MiB);
  bench.allocator.deallocate(first);
  bench.allocator.deallocate(bench.allocator.allocate(60 * MiB, bench.main));
  REQUIRE(bench.moved() == 30 * MiB);
  CHECK(bench.allocator.trim() == 60 * MiB);
  CHECK(bench.device.memory_info().total - bench.device.memory_info().free == 30 * MiB);
  bench.allocator.deallocate(second);
  CHECK(bench.allocator.trim() == 30 * MiB);
  CHECK(bench.device.memory_info().free == bench.device.memory_info().total);
}

TEST_CASE("an exception while an old address is unmapped loses no memory") {
  struct ThrowingSource final : test::ForwardingSource {
    using ForwardingSource::ForwardingSource;
    void end_move(void* from, std::size_t bytes) override {
      if (!std::exchange(threw, true)) throw std::runtime_error{"not the driver's"};
      ForwardingSource::end_move(from, bytes);
    }
    bool threw = false;
  };
  test::Bench bench;
  ThrowingSource source{bench.source};
  CachingAllocator allocator{bench.ordered, source, Policy::millrace()};
  void* const moved = allocator.allocate(30 * MiB, bench.main);
  void* const behind = allocator.allocate(30 * MiB, bench.main);
  allocator.deallocate(moved);
  void* const large = allocator.allocate(60 * MiB, bench.main);
  REQUIRE(allocator.statistics().counts.bytes_moved == 30 * MiB);
  for (void* const address : {behind, large}) allocator.deallocate(address);
  CHECK_THROWS_AS(allocator.trim(), std::runtime_error);
  allocator.check_invariants();
  CHECK(allocator.trim() == 90 * MiB);
  CHECK(bench.device.memory_info().free == bench.device.memory_info().total);
}

TEST_CASE("released memory has no mapping left, even if another thread is unmapping one") {
  struct SlowSource final : test::ForwardingSource {
    SlowSource(SegmentSource& inner, Executor& with) : ForwardingSource(inner), executor(with) {}
    void end_move(void* from, std::size_t bytes) override {
      if (!std::exchange(came, true)) executor.spend(std::chrono::milliseconds{1});
      ForwardingSource::end_move(from, bytes);
    }
    Executor& executor;
    bool came = false;
  };
  test::Bench bench;
  Executor& executor = bench.machine.executor();
  SlowSource source{bench.source, executor};
  CachingAllocator allocator{bench.ordered, source, Policy::millrace()};
  void* const before = allocator.allocate(30 * MiB, bench.main);
  void* const moved = allocator.allocate(30 * MiB, bench.main);
  static_cast<void>(allocator.allocate(30 * MiB, bench.main));
  allocator.deallocate(moved);
  void* const large = allocator.allocate(60 * MiB, bench.main);
  REQUIRE(allocator.statistics().counts.bytes_moved == 30 * MiB);
  const auto first = executor.spawn("first", [&] {
    allocator.deallocate(before);
    CHECK(allocator.allocate(40 * MiB, bench.main) == before);  // plus 10 MiB that were moved away
  });
  const auto second = executor.spawn("second", [&] {
    for (int i = 0; i < 1000 && !source.came; ++i) executor.spend(std::chrono::microseconds{1});
    REQUIRE(source.came);
    allocator.deallocate(large);
    CHECK(allocator.trim() == 60 * MiB);
    const MemoryInfo info = bench.device.memory_info();
    CHECK(info.total - info.free <= allocator.statistics().bytes.reserved.current);
  });
  first->join();
  second->join();
  allocator.check_invariants();
}

TEST_CASE("an observer that is added while memory is being mapped gets one report of it") {
  struct MapsSource final : test::ForwardingSource {
    using ForwardingSource::ForwardingSource;
    void map(void* address, std::size_t bytes) override {
      if (before_map) before_map();
      ForwardingSource::map(address, bytes);
    }
    void begin_move(void* to, void* from, std::size_t bytes) override {
      if (before_move) before_move();
      ForwardingSource::begin_move(to, from, bytes);
    }
    std::function<void()> before_map, before_move;
  };
  struct Held final : AllocationObserver {
    void segment_acquired(void*, std::size_t bytes) override { held += bytes; }
    void segment_released(void*, std::size_t bytes) override { held -= bytes; }
    std::size_t held = 0;
  };
  const bool at_move = GENERATE(false, true), fails = GENERATE(false, true);
  CAPTURE(at_move, fails);
  test::Bench bench{std::size_t{128} << 20};
  MapsSource source{bench.source};
  CachingAllocator allocator{bench.ordered, source, Policy::millrace()};
  void* const first = allocator.allocate(30 * MiB, bench.main);
  static_cast<void>(allocator.allocate(30 * MiB, bench.main));
  allocator.deallocate(first);
  Held observer;
  bool came = false;
  (at_move ? source.before_move : source.before_map) = [&] {
    if (!std::exchange(came, true)) allocator.observe_all(observer);
  };
  const std::size_t bytes = (fails ? 110 : 60) * MiB;  // 30 MiB of them are moved
  if (fails) {
    CHECK_THROWS_AS(allocator.allocate(bytes, bench.main), out_of_memory);
  } else {
    CHECK_NOTHROW(allocator.allocate(bytes, bench.main));
  }
  REQUIRE(came);
  REQUIRE(allocator.statistics().counts.bytes_moved >= 30 * MiB);
  CHECK(observer.held == allocator.statistics().bytes.reserved.current);
  allocator.observe(nullptr);
}

TEST_CASE("moved pages stay moved if the device has no memory for the rest of a request") {
  GrowthBench bench;
  bench.comb(bench.main, 8);
  FaultInjector faults{bench.device};
  faults.fail(Call::map, 4, ErrorCode::out_of_memory);  // after three moves
  CHECK_NOTHROW(bench.allocator.allocate(200 * MiB, bench.main));
  CHECK(bench.reserved() == 320 * MiB);
  CHECK(bench.moved() >= 90 * MiB);
}

TEST_CASE("streams that take turns need no more memory than one of them") {
  GrowthBench bench;
  for (int turn = 0; turn < 6; ++turn) {
    const Stream& stream = turn % 2 == 0 ? bench.main : bench.copy;
    std::vector<void*> held;
    for (int i = 0; i < 4; ++i) held.push_back(bench.allocator.allocate(100 * MiB, stream));
    for (void* const address : held) busy(bench, stream, address, 100 * MiB);
    for (void* const address : held) bench.allocator.deallocate(address);
    bench.ordered.mark(stream);
    bench.ordered.synchronize();
  }
  CHECK(bench.reserved() == 400 * MiB);
}

TEST_CASE("another stream keeps the pages that it needed in its last bursts") {
  const bool needed = GENERATE(true, false);
  CAPTURE(needed);
  GrowthBench bench;
  const auto held = bench.comb(bench.copy, 8);  // a burst of 240 MiB
  for (int burst = 0; burst < (needed ? 2 : 6); ++burst) {
    bench.allocator.deallocate(bench.allocator.allocate(2 * MiB, bench.copy));
    bench.ordered.mark(bench.copy);
  }
  bench.ordered.synchronize();
  static_cast<void>(bench.allocator.allocate(100 * MiB, bench.main));
  CHECK(bench.moved() == (needed ? 0 : 100 * MiB));
  CHECK(bench.reserved() == (needed ? 340 * MiB : 240 * MiB));
}

TEST_CASE("another stream keeps the pages that it needed between pages of other streams") {
  GrowthBench bench;
  CachingAllocator& allocator = bench.allocator;
  Stream third{bench.ordered, {.name = "third"}};
  constexpr std::size_t kBlock = 5 * MiB / 4;  // less than a page
  std::vector<void*> row(9);                   // the first and the last block stay live
  allocator.deallocate(allocator.allocate(12 * MiB, bench.copy));
  for (void*& address : row) address = allocator.allocate(kBlock, bench.copy);
  const auto settle = [&] {
    bench.ordered.mark(bench.copy);
    bench.ordered.synchronize();
  };
  for (const std::size_t i : {2, 4, 6}) allocator.deallocate(row[i]);
  settle();
  for (const std::size_t i : {2, 4, 6}) {
    row[i] = allocator.allocate(kBlock, third);
    REQUIRE((row[i] > row[0] && row[i] < row[8]));
  }
  for (const std::size_t i : {1, 3, 5, 7}) allocator.deallocate(row[i]);
  settle();
  for (int burst = 0; burst < 6; ++burst) {  // copy needs 5.75 of its 8.25 MiB
    void* const one = allocator.allocate(MiB + 1, bench.copy);
    allocator.deallocate(allocator.allocate(MiB + 1, bench.copy));
    allocator.deallocate(one);
    bench.ordered.mark(bench.copy);
  }
  for (const std::size_t i : {2, 4, 6}) allocator.deallocate(row[i]);
  bench.ordered.mark(third);
  settle();
  static_cast<void>(allocator.allocate(200 * MiB, bench.main));
  CHECK(bench.moved() == 4 * MiB);  // two of copy's four free blocks, and the block between
}

TEST_CASE("a request grows if pages cannot be moved") {
  GrowthBench bench;
  bench.comb(bench.main, 8);
  FaultInjector faults{bench.device};
  faults.fail(Call::map, 1, ErrorCode::unknown);
  static_cast<void>(bench.allocator.allocate(100 * MiB, bench.main));
  CHECK(bench.moved() == 0);
  CHECK(bench.reserved() == 310 * MiB);
}

TEST_CASE("the bytes that are moved before a request may grow double each time") {
  MovePatience patience{1.0 / 256};
  std::vector<std::size_t> grew_after;
  std::size_t moved = 0;
  for (int i = 0; i < 1000; ++i) {
    if (patience.lasts(256 * 10)) {
      patience.moved(1);
      ++moved;
    } else {
      grew_after.push_back(std::exchange(moved, 0));
    }
  }
  CHECK(grew_after == std::vector<std::size_t>{11, 21, 41, 81, 161, 321});
}

TEST_CASE("after enough moves one request may grow, by a fixed part of the reserved bytes") {
  MovePatience patience{1.0 / 64};
  CHECK(patience.growth(64 * 10) == 0);
  patience.moved(11);
  CHECK(patience.growth(64 * 100) == 100);
  CHECK(patience.growth(64 * 100) == 0);
  MovePatience endless{std::numeric_limits<double>::infinity()};
  CHECK(endless.growth(64) == 0);
  endless.moved(std::size_t{1} << 50);
  CHECK(endless.growth(64) == 0);
}

TEST_CASE("a request that may grow after moves grows by a small part of the reserved bytes") {
  GrowthBench bench;
  bench.comb(bench.main, 24);  // 360 of 720 MiB are free, in pieces
  int grown = 0;
  for (const std::size_t bytes : {100, 130, 160, 190, 220, 250}) {
    const std::size_t before = bench.reserved(), moved = bench.moved();
    bench.allocator.deallocate(bench.allocator.allocate(bytes * MiB, bench.main));
    REQUIRE(bench.reserved() >= before);
    const std::size_t growth = bench.reserved() - before;
    CAPTURE(bytes, before, growth);
    grown += growth > 0 ? 1 : 0;
    CHECK(growth <= before / 64 + 2 * MiB);  // rounded up to a page
    CHECK(bench.moved() > moved);            // the rest of the request
  }
  CHECK(grown > 0);
}

TEST_CASE("the torch preset marks nothing and moves nothing") {
  test::Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::torch()};
  allocator.deallocate(allocator.allocate(64 * MiB, bench.copy));
  static_cast<void>(allocator.allocate(64 * MiB, bench.main));
  CHECK(bench.device.calls(Call::record) == 0);
  CHECK(allocator.statistics().bytes.reserved.current == 128 * MiB);
}
