#include "memory/graph/pool_source.hpp"

#include <vector>

#include "memory/graph/capture_order.hpp"
#include "test/memory/parts/graph_memory.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

}  // namespace

TEST_CASE("a pool's segments are parked until they are to be given back", "[parts]") {
  CountedMemory memory{100 * kMiB};
  PoolSource source{memory, StreamHandle{}};
  void* const small = source.acquire(4 * kMiB);
  void* const large = source.acquire(20 * kMiB);
  CHECK(source.acquired() == std::vector{small, large});
  source.release(large, 20 * kMiB);
  source.release(small, 4 * kMiB);
  CHECK(memory.given.size() == 2);
  CHECK(source.acquire(6 * kMiB) == large);
  CHECK(source.acquire(2 * kMiB) == small);
  CHECK(source.acquired().empty());
  CHECK(source.bytes() == 24 * kMiB);
  source.release(small, 2 * kMiB);
  const Point last{{3, 1}, 7};
  source.give_back_after(PointSet{last});
  source.release(large, 6 * kMiB);
  CHECK(memory.given.size() == 1);
  CHECK(memory.points_of_last == PointSet{last});
  CHECK(source.give_back_parked(small));
  CHECK_FALSE(source.give_back_parked(small));
  CHECK(memory.left == 100 * kMiB);
  CHECK(source.bytes() == 0);
}

TEST_CASE("under pressure a pool asks once, and for no more than it needs", "[parts]") {
  CountedMemory memory{10 * kMiB};
  PoolSource source{memory, StreamHandle{}};
  source.set_effort(GraphMemory::Effort::quiet);
  CHECK_THROWS_AS(source.acquire(64 * kMiB), DeviceError);
  CHECK(source.relax() == nullptr);
  source.press(11 * kMiB);
  CHECK_THROWS_AS(source.acquire(64 * kMiB), DeviceError);  // is not asked for
  CHECK_THROWS_AS(source.acquire(12 * kMiB), DeviceError);
  CHECK_THROWS_AS(source.acquire(12 * kMiB), DeviceError);  // not again
  CHECK(memory.efforts == std::vector{GraphMemory::Effort::quiet, GraphMemory::Effort::pressed});
  const std::exception_ptr failure = source.relax();
  REQUIRE(failure != nullptr);
  CHECK_THROWS_AS(std::rethrow_exception(failure), out_of_memory);
  CHECK(source.acquire(8 * kMiB) != nullptr);
  CHECK(memory.efforts.back() == GraphMemory::Effort::quiet);
}

TEST_CASE("in a capture nothing is complete, and after it everything is", "[parts]") {
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
  CHECK(order.end().size() == 2);
  CHECK(device.ledger().completed(work));
  CHECK(device.ledger().tracked_streams() == 0);
}

}  // namespace millrace::test
