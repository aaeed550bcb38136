// Observers that throw.
#include <array>
#include <new>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

/// Refuses to take note of the next free, or allocation.
class RefusingObserver final : public AllocationObserver {
 public:
  void allocated(const AllocationEvent&) override {
    if (std::exchange(refuses_allocation, false)) throw std::bad_alloc{};
  }
  void freed(const FreeEvent&) override {
    if (std::exchange(refuses, false)) throw std::bad_alloc{};
  }
  void segment_acquired(void*, std::size_t) override {}
  void segment_released(void*, std::size_t) override {}
  bool refuses = false, refuses_allocation = false;
};

}  // namespace

TEST_CASE("a block whose free an observer refuses is free, and is given out once") {
  const Policy policy = GENERATE(Policy::millrace(), Policy::torch());
  const std::size_t bytes = GENERATE(std::size_t{4096}, 4 * MiB);
  const auto how =
      GENERATE(0, 1, 2, 3);  // plainly, in a batch, after a use, in a batch after a use
  CAPTURE(policy.name, bytes, how);
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, policy};
  RefusingObserver observer;
  allocator.observe(&observer);
  std::vector<void*> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(allocator.allocate(bytes, bench.main));
  if (how > 1) {
    for (void* const block : blocks) allocator.record_use(block, bench.copy);
  }
  observer.refuses = true;
  if (how % 2 == 0) {
    CHECK_THROWS_AS(allocator.deallocate(blocks[0]), std::bad_alloc);
  } else {
    CHECK_THROWS_AS(allocator.deallocate(std::span<void* const>{blocks}), std::bad_alloc);
  }
  CHECK_FALSE(allocator.is_live(blocks[0]));
  CHECK_THROWS_AS(allocator.deallocate(blocks[0]), std::invalid_argument);
  for (const int i : {1, 2}) {
    CHECK(allocator.is_live(blocks[i]));
    allocator.deallocate(blocks[i]);
  }
  allocator.check_invariants();
  CHECK(allocator.statistics().bytes.allocated.current == 0);
  std::set<void*> given;
  for (int i = 0; i < 6; ++i) given.insert(allocator.allocate(bytes, bench.main));
  CHECK(given.size() == 6);
  allocator.check_invariants();
  allocator.observe(nullptr);
}

TEST_CASE("a block whose allocation an observer refuses is free") {
  const Policy policy = GENERATE(Policy::millrace(), Policy::torch());
  const std::size_t bytes = GENERATE(std::size_t{4096}, 4 * MiB);
  const bool warm = GENERATE(false, true);  // the block was freed before
  const bool batch = GENERATE(false, true);
  CAPTURE(policy.name, bytes, warm, batch);
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, policy};
  if (warm) allocator.deallocate(allocator.allocate(bytes, bench.main));
  RefusingObserver observer;
  allocator.observe(&observer);
  observer.refuses_allocation = true;
  if (batch) {
    const std::array<std::size_t, 2> sizes{bytes, bytes};
    std::array<void*, 2> addresses{};
    CHECK_THROWS_AS(allocator.allocate(sizes, addresses, bench.main), std::bad_alloc);
  } else {
    CHECK_THROWS_AS(allocator.allocate(bytes, bench.main), std::bad_alloc);
  }
  allocator.check_invariants();
  CHECK(allocator.statistics().bytes.allocated.current == 0);
  const std::size_t reserved = allocator.statistics().bytes.reserved.current;
  allocator.deallocate(allocator.allocate(bytes, bench.main));
  CHECK(allocator.statistics().bytes.reserved.current == reserved);
  allocator.observe(nullptr);
}

}  // namespace millrace::test
