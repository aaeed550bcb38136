#include "memory/graph/pool_source.hpp"

#include <vector>

#include "memory/graph/capture_order.hpp"
#include "test/memory/parts/graph_memory.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
TEST_CASE("released segments of a pool are parked until the pool gives them back", "[parts]") {
  CountedMemory memory{100 * MiB};
  PoolSource source{memory, StreamHandle{}};
  void* const small = source.acquire(4 * MiB);
  void* const large = source.acquire(20 * MiB);
  CHECK(source.acquired() == std::vector{small, large});
  source.release(large, 20 * MiB);
  source.release(small, 4 * MiB);
  CHECK(memory.given.size() == 2);
  CHECK(source.acquire(6 * MiB) == large);
  CHECK(source.acquire(2 * MiB) == small);
  CHECK(source.acquired().empty());
  CHECK(source.bytes() == 24 * MiB);
  source.release(small, 2 * MiB);
  const Point last{{3, 1}, 7};
  {
    PoolSource::GivingBack giving_back{source, PointSet{last}};
    giving_back.release(large);
    CHECK(memory.given.size() == 2);
    source.release(large, 6 * MiB);
    CHECK(memory.given.size() == 1);
    CHECK(memory.points_of_last == PointSet{last});
    giving_back.release(small);
    giving_back.release(small);  // no longer in the source
  }
  CHECK(memory.left == 100 * MiB);
  CHECK(source.bytes() == 0);
}

TEST_CASE("segments that are released after the giving back ended are parked", "[parts]") {
  CountedMemory memory{100 * MiB};
  PoolSource source{memory, StreamHandle{}};
  void* const live = source.acquire(4 * MiB);
  {
    PoolSource::GivingBack giving_back{source, {}};
    giving_back.release(live);
    void* const other = source.acquire(8 * MiB);
    source.release(other, 8 * MiB);
  }
  source.release(live, 4 * MiB);
  CHECK(memory.given.size() == 2);
}

TEST_CASE("under pressure a pool adds the memory that one request needs", "[parts]") {
  using Effort = GraphMemory::Effort;
  CountedMemory memory{10 * MiB};
  memory.left_if_pressed = 2 * MiB;
  PoolSource source{memory, StreamHandle{}};
  source.set_effort(Effort::quiet);
  CHECK_THROWS_AS(source.acquire(64 * MiB), DeviceError);
  CHECK_THROWS_AS(source.add(64 * MiB), out_of_memory);
  source.add(12 * MiB);
  CHECK(memory.efforts == std::vector{Effort::quiet, Effort::pressed, Effort::pressed});
  CHECK(source.acquire(12 * MiB) != nullptr);
  CHECK(memory.efforts.size() == 3);
  CHECK_THROWS_AS(source.acquire(2 * MiB), DeviceError);
  CHECK(memory.efforts.back() == Effort::quiet);
}

TEST_CASE("no work is complete during a capture, and all work is complete after it", "[parts]") {
  CaptureOrder order;
  OrderedDevice& device = order.device();
  int one = 0, two = 0;
  order.begin();
  const StreamRef first = order.join(StreamHandle{&one}), second = order.join(StreamHandle{&two});
  const Point work{first.id(), device.ledger().next(first.id())};
  const Point marked = device.mark(first);
  device.poll();
  CHECK_FALSE(device.ledger().completed(work));
  CHECK_FALSE(device.ledger().ordered(work, second.id()));
  CHECK_THROWS_AS(device.synchronize(), DeviceError);
  CHECK(device.wait_for(second, marked));
  CHECK(device.ledger().ordered(work, second.id()));
  order.end();
  CHECK(device.ledger().completed(work));
  CHECK(device.ledger().tracked_streams() == 0);
}

}  // namespace millrace::test
