#include <cstring>

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using millrace::test::Bench;
using millrace::test::busy;
using millrace::test::MiB;

namespace {

// The millrace preset with segments as large as requests, so that every miss shows as growth.
Policy exact(Sharing sharing) {
  Policy policy = test::exact_segments(Policy::millrace());
  policy.sharing = sharing;
  policy.spare_bursts = 0;
  policy.slack = 0;
  return policy;
}

}  // namespace

TEST_CASE("allocate and deallocate on an attached stream make no device call once warm") {
  for (const Policy& policy : {Policy::torch(), Policy::millrace()}) {
    Bench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy};
    allocator.deallocate(allocator.allocate(3 * MiB, bench.main));
    allocator.deallocate(allocator.allocate(5000, bench.main));
    const std::uint64_t before = bench.device.calls();
    for (int i = 0; i < 100; ++i) {
      void* large = allocator.allocate(3 * MiB, bench.main);
      void* small = allocator.allocate(5000, bench.main);
      allocator.deallocate(large);
      allocator.deallocate(small);
    }
    CHECK(bench.device.calls() == before);
  }
}

TEST_CASE("a stream that is already ordered after a free reuses the memory with no device call") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, exact(Sharing::ordered)};
  void* first = allocator.allocate(4 * MiB, bench.copy);
  busy(bench, bench.copy, first, 4 * MiB);
  allocator.deallocate(first);
  bench.main.wait_stream(bench.copy);
  const std::uint64_t before = bench.device.calls();
  CHECK(allocator.allocate(4 * MiB, bench.main) == first);
  CHECK(bench.device.calls() == before);
  CHECK(allocator.statistics().counts.served_ordered == 1);
}

TEST_CASE("a marker that was recorded before the free does not cover it") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, exact(Sharing::ordered)};
  void* first = allocator.allocate(4 * MiB, bench.copy);
  busy(bench, bench.copy, first, 4 * MiB);
  bench.main.wait_stream(bench.copy);
  busy(bench, bench.copy, first, 4 * MiB);
  allocator.deallocate(first);
  CHECK(allocator.allocate(4 * MiB, bench.main) != first);
}

TEST_CASE("a block freed on a side stream serves the main stream once the copy is done") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, exact(Sharing::ordered)};
  void* first = allocator.allocate(4 * MiB, bench.copy);
  busy(bench, bench.copy, first, 4 * MiB);
  allocator.deallocate(first);
  bench.copy.mark();
  void* second = allocator.allocate(4 * MiB, bench.main);
  CHECK(second != first);
  bench.copy.synchronize();
  CHECK(allocator.allocate(4 * MiB, bench.main) == first);
}

TEST_CASE("with PyTorch's decisions a side stream's memory never serves the main stream") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::torch()};
  allocator.deallocate(allocator.allocate(4 * MiB, bench.copy));
  bench.ordered.synchronize();
  const std::size_t reserved = allocator.statistics().bytes.reserved.current;
  (void)allocator.allocate(4 * MiB, bench.main);
  CHECK(allocator.statistics().bytes.reserved.current == 2 * reserved);
  CHECK(allocator.usable(bench.main).stranded == reserved);
}

TEST_CASE("a wait is for the marker that covers the block, not for the tail of the stream") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, exact(Sharing::wait_before_grow)};
  void* first = allocator.allocate(4 * MiB, bench.main);
  busy(bench, bench.main, first, 4 * MiB);
  allocator.deallocate(first);
  bench.main.mark();
  void* other = allocator.allocate(4 * MiB, bench.main);
  REQUIRE(other == first);  // the same stream: nothing to wait for
  allocator.deallocate(other);
  bench.main.mark();
  void* tail = allocator.allocate(64 * MiB, bench.main);
  for (int i = 0; i < 4; ++i) busy(bench, bench.main, tail, 64 * MiB);

  void* taken = allocator.allocate(4 * MiB, bench.copy);
  CHECK(taken == first);
  CHECK(allocator.statistics().counts.waits_inserted == 1);
  Event done;
  bench.ordered.record(done, bench.copy);
  bench.ordered.synchronize(done);
  CHECK(bench.machine.now() < std::chrono::milliseconds{10});  // the tail alone takes 20
}

TEST_CASE("among blocks that need a wait the one with the earliest marker is taken") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, exact(Sharing::wait_before_grow)};
  void* early = allocator.allocate(6 * MiB, bench.main);
  void* late = allocator.allocate(4 * MiB, bench.main);
  busy(bench, bench.main, early, 6 * MiB);
  allocator.deallocate(early);
  bench.main.mark();
  busy(bench, bench.main, late, 4 * MiB);
  allocator.deallocate(late);
  bench.main.mark();
  CHECK(allocator.allocate(4 * MiB, bench.copy) == early);  // though the later one fits better
}

TEST_CASE("another stream's block is carved only up to the limit") {
  Bench bench;
  Policy policy = exact(Sharing::ordered);
  CachingAllocator allocator{bench.ordered, bench.source, policy};
  void* large = allocator.allocate(64 * MiB, bench.copy);
  allocator.deallocate(large);
  bench.copy.synchronize();
  CHECK(allocator.allocate(33 * MiB, bench.main) == large);
  void* small = allocator.allocate(8 * MiB, bench.copy);
  void* foreign = allocator.allocate(8 * MiB, bench.main);
  CHECK(small == static_cast<char*>(large) + 33 * MiB);  // the remainder of copy's own block
  CHECK((foreign < large || foreign >= static_cast<char*>(large) + 64 * MiB));
}

TEST_CASE("a third stream that gets the second one's block also waits for the first stream") {
  // rmm#2489: the second stream waited and passed the block on. The third one did not wait for the
  // first.
  Bench bench;
  Stream third{bench.ordered, {.name = "third"}};
  CachingAllocator allocator{bench.ordered, bench.source, exact(Sharing::wait_before_grow)};
  void* block = allocator.allocate(4 * MiB, bench.main);
  busy(bench, bench.main, block, 4 * MiB);
  const Point used{bench.main.id(), bench.ordered.ledger().next(bench.main.id())};
  allocator.deallocate(block);
  REQUIRE(allocator.allocate(4 * MiB, bench.copy) == block);
  allocator.deallocate(block);
  REQUIRE(allocator.allocate(4 * MiB, third) == block);
  CHECK(bench.ordered.ledger().ordered(used, third.id()));
}

TEST_CASE("both halves of a split block keep the points to wait for") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, exact(Sharing::wait_before_grow)};
  void* block = allocator.allocate(8 * MiB, bench.main);
  busy(bench, bench.main, block, 8 * MiB);
  allocator.deallocate(block);
  bench.main.mark();
  REQUIRE(allocator.allocate(5 * MiB, bench.copy) == block);
  Stream third{bench.ordered, {.name = "third"}};
  CHECK(allocator.allocate(3 * MiB, third) == static_cast<char*>(block) + 5 * MiB);
  CHECK(allocator.statistics().counts.waits_inserted == 2);
}

TEST_CASE("freeing on a stream that never saw the block keeps the earlier tenants' points") {
  Bench bench;
  Stream third{bench.ordered, {.name = "third"}};
  CachingAllocator allocator{bench.ordered, bench.source, exact(Sharing::wait_before_grow)};
  void* block = allocator.allocate(4 * MiB, bench.main);
  busy(bench, bench.main, block, 4 * MiB);
  const Point used{bench.main.id(), bench.ordered.ledger().next(bench.main.id())};
  allocator.deallocate(block);
  SECTION("by stream") {
    REQUIRE(allocator.allocate(4 * MiB, bench.copy) == block);
    allocator.deallocate(block, third);
  }
  SECTION("by marker") {
    const Point marker = third.mark();
    REQUIRE(allocator.allocate(4 * MiB, bench.copy) == block);
    allocator.deallocate(block, marker);
  }
  REQUIRE(allocator.allocate(4 * MiB, third) == block);
  CHECK(bench.ordered.ledger().ordered(used, third.id()));
}

TEST_CASE("a block with recorded uses is not reused before they are done") {
  for (const Policy& policy : {Policy::torch(), exact(Sharing::ordered)}) {
    Bench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy};
    void* block = allocator.allocate(4 * MiB, bench.copy);
    busy(bench, bench.main, block, 4 * MiB);
    allocator.record_use(block, bench.main);
    allocator.deallocate(block);
    CHECK(allocator.statistics().bytes.active.current == 4 * MiB);
    CHECK(allocator.allocate(4 * MiB, bench.copy) != block);
    bench.main.synchronize();
    CHECK(allocator.allocate(4 * MiB, bench.copy) == block);
    allocator.check_invariants();
  }
}

TEST_CASE("a block whose recorded uses are complete at the free serves the next request") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::torch()};
  void* const used = allocator.allocate(4 * MiB, bench.main);
  {
    Stream side{bench.ordered};
    allocator.record_use(used, side);
  }
  bench.ordered.synchronize();
  static_cast<void>(allocator.statistics());
  allocator.deallocate(used);  // no later completion could release the block
  CHECK(allocator.allocate(4 * MiB, bench.main) == used);
}

TEST_CASE("with a declared last use, the copy stream does not wait for the main stream's tail") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, exact(Sharing::wait_before_grow)};
  void* batch = allocator.allocate(4 * MiB, bench.main, bench.copy);
  bench.main.wait_stream(bench.copy);
  busy(bench, bench.main, batch, 4 * MiB);
  const Point last_use = bench.main.mark();
  void* other = allocator.allocate(32 * MiB, bench.main);
  for (int i = 0; i < 10; ++i) busy(bench, bench.main, other, 32 * MiB);
  allocator.deallocate(batch, last_use);
  CHECK(allocator.allocate(4 * MiB, bench.main, bench.copy) == batch);
  bench.copy.synchronize();
  CHECK(bench.machine.now() < std::chrono::milliseconds{10});
}

TEST_CASE("no wait is inserted for a stream that is declared independent") {
  Bench bench;
  Stream spinning{bench.ordered, {.name = "spinning"}, true};
  CachingAllocator allocator{bench.ordered, bench.source, exact(Sharing::wait_before_grow)};
  void* block = allocator.allocate(4 * MiB, spinning);
  busy(bench, spinning, block, 4 * MiB);
  allocator.deallocate(block);
  spinning.mark();
  CHECK(allocator.allocate(4 * MiB, bench.main) != block);
  void* other = allocator.allocate(8 * MiB, bench.main);
  allocator.deallocate(other);
  bench.main.mark();
  CHECK(allocator.allocate(8 * MiB, spinning) != other);
  CHECK(allocator.statistics().counts.waits_inserted == 0);
}

TEST_CASE("free neighbors that are ready serve a request that none could serve alone") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, exact(Sharing::ordered)};
  void* whole = allocator.allocate(12 * MiB, bench.main);
  allocator.deallocate(whole);
  void* left = allocator.allocate(6 * MiB, bench.main);
  void* right = allocator.allocate(6 * MiB, bench.main, bench.copy);
  REQUIRE(left == whole);
  allocator.deallocate(left);
  allocator.deallocate(right);
  bench.ordered.synchronize();
  CHECK(allocator.allocate(12 * MiB, bench.main) == whole);
  allocator.check_invariants();
}

TEST_CASE("pinned memory is reused only once the device is known to have finished with it") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.pinned, Policy::pinned()};
  void* staging = allocator.allocate(4 * MiB, bench.copy);
  void* target = bench.device.allocate(4 * MiB);
  bench.device.copy(target, staging, 4 * MiB, CopyKind::host_to_device, bench.copy.handle());
  allocator.deallocate(staging);
  CHECK(allocator.allocate(4 * MiB, bench.copy) != staging);  // the host would overwrite it
  bench.copy.synchronize();
  CHECK(allocator.allocate(4 * MiB, bench.copy) == staging);
  bench.device.free(target);
}
