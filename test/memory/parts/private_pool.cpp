// One graph pool over a fake general allocator that reports each request.
#include "memory/graph/private_pool.hpp"

#include "test/memory/parts/graph_memory.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

using Effort = GraphMemory::Effort;

struct Rig : Bench {
  CountedMemory memory{1000 * MiB};
  PrivatePool pool{memory, ordered, Policy::millrace(), GraphPool::HeldUntil::destroyed};
};

}  // namespace

TEST_CASE("a request during another one's search under pressure stays quiet", "[parts]") {
  Rig rig;
  rig.pool.begin();
  const StreamRef inner = rig.pool.order().join(rig.main), other = rig.pool.order().join(rig.copy);
  bool nested = false;
  rig.memory.on_take = [&](std::size_t, Effort effort) {
    if (effort != Effort::pressed || nested) return;
    nested = true;
    rig.memory.efforts.clear();
    CHECK(rig.pool.allocate(20 * MiB, other, other) != nullptr);
    for (const Effort asked : rig.memory.efforts) CHECK(asked == Effort::quiet);
  };
  CHECK_THROWS_AS(rig.pool.allocate(2000 * MiB, inner, inner), out_of_memory);
  CHECK(nested);
  rig.pool.end(false);
}

TEST_CASE("launches of a graph on one stream cost a pool one point", "[parts]") {
  Rig rig;
  rig.pool.begin();
  rig.pool.end(true);
  for (int launch = 0; launch < 100'000; ++launch) rig.pool.launched(rig.main);
  CHECK(rig.pool.points().size() == 1);
}

TEST_CASE("launches on destroyed streams leave few points in a pool", "[parts]") {
  Rig rig;
  rig.pool.begin();
  rig.pool.end(true);
  for (int launch = 0; launch < 20'000; ++launch) {
    Stream stream{rig.ordered};
    rig.pool.launched(stream);
    stream.synchronize();
  }
  CHECK(rig.pool.points().size() < 100);
}

}  // namespace millrace::test
