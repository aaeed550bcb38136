// What small blocks that stay with their stream must not hide or hold up.

#include <vector>

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;

}  // namespace

TEST_CASE("what a callback frees serves the request before the next callback is asked") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace(), {.limit = 2 * kMiB}};
  std::vector<void*> live;
  for (int i = 0; i < 4; ++i) live.push_back(allocator.allocate(512 * kKiB, bench.main));
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
  CHECK(allocator.allocate(512 * kKiB, bench.main) == live[0]);
  CHECK(asked == 1);
}

TEST_CASE("a small block that was cut from a large segment is free for a large request") {
  CachingBench bench;
  CachingAllocator& allocator = bench.allocator;
  void* const large = allocator.allocate(32 * kMiB, bench.main);
  const std::size_t reserved = bench.reserved();
  allocator.set_limit(reserved);
  allocator.deallocate(large);
  void* const small = allocator.allocate(4 * kKiB, bench.main);  // no other segment can be had
  allocator.deallocate(small);
  allocator.set_limit(0);
  CHECK(allocator.allocate(32 * kMiB, bench.main) == large);
  CHECK(bench.reserved() == reserved);
}

TEST_CASE("a block whose other user is gone serves its stream, and those behind it do as well") {
  CachingBench bench;
  CachingAllocator& allocator = bench.allocator;
  void* const first = allocator.allocate(4 * kKiB, bench.main);
  void* const second = allocator.allocate(4 * kKiB, bench.main);
  {
    const Stream gone{bench.ordered, {.name = "gone"}};
    allocator.record_use(first, gone);
  }
  bench.ordered.synchronize();
  allocator.record_use(second, bench.copy);
  allocator.deallocate(first);
  allocator.deallocate(second);
  bench.ordered.synchronize();
  void* const one = allocator.allocate(4 * kKiB, bench.main);
  void* const other = allocator.allocate(4 * kKiB, bench.main);
  CHECK((one == first || one == second));
  CHECK((other == first || other == second));
  CHECK(one != other);
}

TEST_CASE("a small block that another stream still uses is active for a scope") {
  CachingBench bench;
  CachingAllocator& allocator = bench.allocator;
  void* const block = allocator.allocate(512 * kKiB, bench.main);
  const ScopeId scope = allocator.open_scope();
  allocator.record_use(block, bench.copy);
  busy(bench, bench.copy, block, 512 * kKiB);
  allocator.deallocate(block);
  CHECK(allocator.peaks(scope).active.current == 512 * kKiB);
  CHECK(allocator.statistics().bytes.active.current == 512 * kKiB);
  allocator.close_scope(scope);
  bench.ordered.synchronize();
}

}  // namespace millrace::test
