#include <atomic>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using millrace::test::Bench;
using millrace::test::MiB;

TEST_CASE("a limit below the reserved bytes refuses growth until memory is given back") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::torch()};
  void* const held = allocator.allocate(20 * MiB, bench.main);
  allocator.deallocate(allocator.allocate(30 * MiB, bench.main));
  allocator.set_limit(25 * MiB);
  CHECK(allocator.statistics().bytes.reserved.current == 50 * MiB);
  CHECK_THROWS_AS(allocator.allocate(40 * MiB, bench.main), out_of_memory);
  CHECK(allocator.trim(25 * MiB) == 0);  // the failed request gave back all free memory
  CHECK(allocator.statistics().bytes.reserved.current == 20 * MiB);
  allocator.deallocate(held);
  CHECK(allocator.allocate(24 * MiB, bench.main) != nullptr);
}

TEST_CASE("headroom can be set later") {
  Bench bench{256 * MiB};
  CachingAllocator allocator{bench.ordered, bench.source, Policy::torch()};
  (void)allocator.allocate(100 * MiB, bench.main);
  allocator.set_headroom(128 * MiB);
  CHECK_THROWS_AS(allocator.allocate(60 * MiB, bench.main), out_of_memory);
  allocator.set_headroom(0);
  CHECK(allocator.allocate(60 * MiB, bench.main) != nullptr);
}

TEST_CASE("callbacks run by turn, then in the order of registration") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace(), {.limit = 8 * MiB}};
  std::string asked;
  const auto note = [&](char name) {
    return [&asked, name](std::size_t) { return asked += name, false; };
  };
  allocator.on_out_of_memory(note('c'), 1);
  allocator.on_out_of_memory(note('a'), -1);
  allocator.on_out_of_memory(note('d'), 1);
  allocator.on_out_of_memory(note('b'));
  CHECK_THROWS_AS(allocator.allocate(40 * MiB, bench.main), out_of_memory);
  CHECK(asked == "abcd");
}
