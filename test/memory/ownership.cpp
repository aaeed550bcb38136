#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using millrace::test::Bench;

TEST_CASE("memory that was transferred from a destroyed stream can be freed") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  auto loader = std::make_unique<Stream>(bench.ordered, StreamOptions{.name = "loader"});
  void* const batch = allocator.allocate(4096, *loader);
  loader.reset();
  allocator.transfer(batch, bench.main);
  allocator.deallocate(batch);
  CHECK(allocator.statistics().live_blocks == 0);
  bench.ordered.synchronize();
  CHECK(allocator.trim() > 0);
}

TEST_CASE("transferred memory serves its first stream again after the second one's work") {
  for (const Policy& policy : {Policy::torch(), Policy::millrace()}) {
    Bench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy};
    void* const block = allocator.allocate(4096, bench.main);
    bench.copy.wait_stream(bench.main);
    allocator.transfer(block, bench.copy);
    const Point used{bench.copy.id(), bench.ordered.ledger().next(bench.copy.id())};
    allocator.deallocate(block);
    const void* const next = allocator.allocate(4096, bench.main);
    CHECK((next != block || bench.ordered.ledger().ordered(used, bench.main.id())));
    bench.ordered.synchronize();
    CHECK(allocator.allocate(4096, bench.main) != nullptr);
  }
}
