#include <stdexcept>

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using millrace::test::Bench;

namespace {

/// Runs `body` in a separate actor and waits for its end.
template <typename Body>
void elsewhere(Bench& bench, Body body) {
  bench.machine.executor().spawn("elsewhere", body)->join();
}

StreamRef per_thread(Bench& bench) {
  return bench.ordered.resolve(bench.device.per_thread_stream());
}

}  // namespace

TEST_CASE("the per-thread stream cannot be attached, since it differs on each thread") {
  Bench bench;
  CHECK_THROWS_AS(bench.ordered.attach(bench.device.per_thread_stream()), std::invalid_argument);
}

TEST_CASE("a per-thread stream is ordered on its own thread") {
  Bench bench;
  const StreamRef mine = per_thread(bench);
  const Point used{mine.id(), bench.ordered.ledger().next(mine.id())};
  Event event;
  bench.ordered.record(event, mine);
  bench.ordered.wait(bench.main, event);
  CHECK(bench.ordered.ledger().ordered(used, bench.main.id()));
}

TEST_CASE("another thread cannot record on a per-thread stream") {
  Bench bench;
  const StreamRef mine = per_thread(bench);
  const Point used{mine.id(), bench.ordered.ledger().next(mine.id())};
  elsewhere(bench, [&] {
    Event event;
    CHECK_THROWS_AS(bench.ordered.mark(mine), DeviceError);
    CHECK_THROWS_AS(bench.ordered.record(event, mine), DeviceError);
    CHECK_THROWS_AS(bench.ordered.synchronize(mine), DeviceError);
  });
  CHECK_FALSE(bench.ordered.ledger().earliest_covering(used).has_value());
  bench.ordered.mark(mine);
  CHECK(bench.ordered.ledger().earliest_covering(used).has_value());
}

TEST_CASE("memory used on a per-thread stream is not reused after another thread's free") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  const StreamRef mine = per_thread(bench);
  void* const memory = allocator.allocate(4 << 20, bench.main);
  allocator.record_use(memory, mine);
  const Point used{mine.id(), bench.ordered.ledger().next(mine.id())};
  elsewhere(bench, [&] { allocator.deallocate(memory); });
  CHECK_FALSE(bench.ordered.ledger().earliest_covering(used).has_value());
  CHECK(allocator.allocate(4 << 20, bench.main) != memory);
}
