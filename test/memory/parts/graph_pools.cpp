// Graph pools over a fake general allocator that reports each request.
#include "memory/graph/graph_pools.hpp"

#include <memory>

#include "test/memory/parts/graph_memory.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
TEST_CASE("a pool whose last block is freed while the pool is given back is not leaked",
          "[parts]") {
  Bench bench;
  CountedMemory memory{1000 * MiB};
  const Policy policy = Policy::millrace();
  GraphPools pools{memory, bench.ordered, policy};
  auto hold = pools.make(GraphPool::HeldUntil::destroyed);
  pools.begin(*hold->pool, bench.main);
  void* const output = pools.allocate(10 * MiB, bench.main, bench.main);
  void* const temporary = pools.allocate(40 * MiB, bench.main, bench.main);
  pools.deallocate(temporary, nullptr);
  pools.end(*hold->pool, true);
  hold->pool->launched(bench.main);
  bool freed = false;
  memory.on_give_back = [&] {
    if (!freed) pools.deallocate(output, nullptr);
    freed = true;
  };
  hold.reset();
  pools.tidy();
  CHECK(freed);
  pools.tidy();
  CHECK(pools.statistics().pools == 0);
  CHECK(memory.given.empty());
}

}  // namespace millrace::test
