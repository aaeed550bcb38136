#include <vector>

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using millrace::test::Bench;
using millrace::test::busy;
using millrace::test::MiB;

namespace {

// A policy that may always wait and may always grow. Segments have the size of their request, so
// every miss shows as growth.
Policy generous() {
  Policy policy = test::exact_segments(Policy::millrace());
  policy.spare_bursts = 1000;
  policy.slack = 0;
  return policy;
}

/// Copies a batch on the copy stream, uses it on main and frees it. The host never waits.
std::vector<void*> step(Bench& bench, Allocator& allocator,
                        std::initializer_list<std::size_t> sizes) {
  std::vector<void*> batch;
  for (const std::size_t bytes : sizes) {
    batch.push_back(allocator.allocate(bytes, bench.copy));
    busy(bench, bench.copy, batch.back(), bytes);
  }
  bench.main.wait_stream(bench.copy);
  std::size_t i = 0;
  for (const std::size_t bytes : sizes) busy(bench, bench.main, batch[i++], bytes);
  for (void* tensor : batch) {
    allocator.record_use(tensor, bench.main);
    allocator.deallocate(tensor);
  }
  return batch;
}

}  // namespace

TEST_CASE("a loop far ahead of the device alternates between two blocks, with a wait per step") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, generous()};
  const std::vector<void*> first = step(bench, allocator, {4 * MiB});
  const std::vector<void*> second = step(bench, allocator, {4 * MiB});
  CHECK(first != second);  // used a moment ago: waiting would keep the copy from overlapping
  for (int i = 0; i < 10; ++i) {
    CHECK(step(bench, allocator, {4 * MiB}) == first);
    CHECK(step(bench, allocator, {4 * MiB}) == second);
  }
  CHECK(allocator.statistics().bytes.reserved.peak == 8 * MiB);
  CHECK(allocator.statistics().counts.waits_inserted == 20);
}

TEST_CASE("each tensor of a batch gets the block that it had two batches earlier") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, generous()};
  const std::vector<void*> first = step(bench, allocator, {4 * MiB, 6 * MiB});
  const std::vector<void*> second = step(bench, allocator, {4 * MiB, 6 * MiB});
  for (int i = 0; i < 10; ++i) {
    CHECK(step(bench, allocator, {4 * MiB, 6 * MiB}) == first);
    CHECK(step(bench, allocator, {4 * MiB, 6 * MiB}) == second);
  }
  CHECK(allocator.statistics().bytes.reserved.peak == 20 * MiB);
}

TEST_CASE("no tensor of a batch gets a block of the previous batch") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, generous()};
  const std::vector<void*> first = step(bench, allocator, {4 * MiB});
  const std::vector<void*> second = step(bench, allocator, {4 * MiB, 4 * MiB});
  const std::vector<void*> third = step(bench, allocator, {4 * MiB, 4 * MiB});
  CHECK(third[0] == first[0]);  // used long ago
  CHECK(third[1] != second[0]);
  CHECK(third[1] != second[1]);
  CHECK(allocator.statistics().bytes.reserved.peak == 16 * MiB);
}

TEST_CASE("a copy into memory that was used long ago overlaps the previous step") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, generous()};
  constexpr int kSteps = 20;
  for (int i = 0; i < kSteps; ++i) (void)step(bench, allocator, {4 * MiB});
  bench.main.synchronize();
  // Each step has 5 ms of copying and 5 ms of work on main, which overlap.
  CHECK(bench.machine.now() < std::chrono::milliseconds{5 * (kSteps + 2)});
}

TEST_CASE("free neighbors that were used long ago are merged before a stream grows") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, generous()};
  for (int i = 0; i < 2; ++i) {  // two segments, one for each of two batches in turn
    (void)step(bench, allocator, {8 * MiB});
  }
  const std::vector<void*> pieces = step(bench, allocator, {4 * MiB, 4 * MiB});
  REQUIRE(pieces[1] == static_cast<std::byte*>(pieces[0]) + 4 * MiB);
  (void)step(bench, allocator, {8 * MiB});
  CHECK(step(bench, allocator, {8 * MiB}).front() == pieces[0]);
  CHECK(allocator.statistics().bytes.reserved.peak == 16 * MiB);
  allocator.check_invariants();
}

TEST_CASE("a merge with a wait takes only as many free neighbors as the request needs") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, generous()};
  for (int i = 0; i < 2; ++i) (void)step(bench, allocator, {10 * MiB});
  const std::vector<void*> pieces = step(bench, allocator, {2 * MiB, 4 * MiB, 4 * MiB});
  REQUIRE(pieces[2] == static_cast<std::byte*>(pieces[0]) + 6 * MiB);
  (void)step(bench, allocator, {10 * MiB});
  CHECK(step(bench, allocator, {8 * MiB}).front() == pieces[1]);
  CHECK(allocator.statistics().bytes.reserved.peak == 20 * MiB);
  allocator.check_invariants();
}

TEST_CASE("the smallest sufficient run of free neighbors is merged with a wait") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, generous()};
  const void* const large = step(bench, allocator, {12 * MiB}).front();
  const void* const small = step(bench, allocator, {8 * MiB}).front();
  REQUIRE(large < small);
  REQUIRE(step(bench, allocator, {6 * MiB, 6 * MiB}).front() == large);
  REQUIRE(step(bench, allocator, {4 * MiB, 4 * MiB}).front() == small);
  (void)step(bench, allocator, {20 * MiB});
  CHECK(step(bench, allocator, {8 * MiB}).front() == small);
  allocator.check_invariants();
}

TEST_CASE(
    "among blocks that were used long ago, the one with the earliest last use is waited for") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, generous()};
  const std::vector<void*> first = step(bench, allocator, {4 * MiB});
  const std::vector<void*> second = step(bench, allocator, {4 * MiB});
  REQUIRE(step(bench, allocator, {4 * MiB}) == first);  // now used last, at a lower address
  REQUIRE(first[0] < second[0]);
  (void)step(bench, allocator, {16 * MiB});
  (void)step(bench, allocator, {16 * MiB});
  CHECK(step(bench, allocator, {4 * MiB}) == second);
}
