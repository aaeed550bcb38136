#include "test/ordering/streams.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

TEST_CASE("a stream may reuse at once memory that was freed on it") {
  Streams s;
  const StreamId main = s.ledger.open();
  CHECK(s.ledger.ordered(s.freed(main), main));
}

TEST_CASE("a stream that waited for a marker after a free may use the freed memory") {
  Streams s;
  const StreamId main = s.ledger.open(), copy = s.ledger.open();
  const Point block = s.freed(copy);
  CHECK_FALSE(s.ledger.ordered(block, main));
  s.ledger.join(main, s.record(copy));
  CHECK(s.ledger.ordered(block, main));
}

TEST_CASE("a marker whose record began before a free does not cover it") {
  Streams s;
  const StreamId main = s.ledger.open(), copy = s.ledger.open();
  PendingRecord record = s.ledger.begin_record(copy);
  const Point marker = record.point;
  const Point block = s.freed(copy);
  s.ledger.publish_record(std::move(record), 1);
  s.ledger.join(main, marker);
  CHECK_FALSE(s.ledger.ordered(block, main));
  CHECK_FALSE(s.ledger.earliest_covering(block));
}

TEST_CASE("a wait that a stream makes during a record is not covered by that marker") {
  Streams s;
  const StreamId main = s.ledger.open(), copy = s.ledger.open(), side = s.ledger.open();
  const Point block = s.freed(side);
  PendingRecord record = s.ledger.begin_record(copy);
  const Point marker = record.point;
  s.ledger.join(copy, s.record(side));
  s.ledger.publish_record(std::move(record), 1);
  s.ledger.join(main, marker);
  CHECK_FALSE(s.ledger.ordered(block, main));
}

TEST_CASE("a failed record publishes nothing, and the next record covers the same work") {
  Streams s;
  const StreamId main = s.ledger.open(), copy = s.ledger.open();
  const Point block = s.freed(copy);
  const Point failed = s.ledger.begin_record(copy).point;
  CHECK_FALSE(s.ledger.earliest_covering(block));
  s.ledger.join(main, failed);
  CHECK_FALSE(s.ledger.ordered(block, main));

  const Point marker = s.record(copy);
  CHECK(marker.marker == failed.marker + 1);
  CHECK(s.ledger.earliest_covering(block)->point == marker);
}

TEST_CASE("frees on a stream that is being captured are covered by a marker after the capture") {
  Streams s;
  const StreamId main = s.ledger.open(), copy = s.ledger.open();
  const Point before = s.record(copy);
  const Point block = s.freed(copy);  // the capture has begun: no marker can be recorded
  static_cast<void>(s.ledger.begin_record(copy));  // a record that the driver refused
  s.ledger.join(main, before);
  CHECK_FALSE(s.ledger.ordered(block, main));
  CHECK_FALSE(s.ledger.earliest_covering(block));
  s.ledger.join(main, s.record(copy));  // the capture has ended
  CHECK(s.ledger.ordered(block, main));
}

TEST_CASE("a free in a host callback waits for a marker that is recorded after it") {
  Streams s;
  const StreamId main = s.ledger.open(), copy = s.ledger.open();
  const Point behind_callback = s.record(copy);  // enqueued before the callback ran
  const Point block = s.freed(copy);             // in the callback
  s.ledger.join(main, behind_callback);
  CHECK_FALSE(s.ledger.ordered(block, main));
  CHECK(s.ledger.ordered(block, copy));
  s.ledger.join(main, s.record(copy));
  CHECK(s.ledger.ordered(block, main));
}

TEST_CASE("a block used by its owner and freed on another stream needs both points") {
  Streams s;
  const StreamId owner = s.ledger.open(), other = s.ledger.open(), third = s.ledger.open();
  const Point used = s.freed(owner), freed = s.freed(other);
  CHECK(s.ledger.ordered(freed, other));
  CHECK_FALSE(s.ledger.ordered(used, other));
  s.ledger.join(third, s.record(other));
  CHECK_FALSE(s.ledger.ordered(used, third));
  s.ledger.join(third, s.record(owner));
  CHECK((s.ledger.ordered(used, third) && s.ledger.ordered(freed, third)));
}

TEST_CASE("pinned memory that the host refills needs completion, not order") {
  Streams s;
  const StreamId main = s.ledger.open(), copy = s.ledger.open();
  const Point read = s.freed(copy);
  const Point marker = s.record(copy);
  s.ledger.join(main, marker);
  CHECK(s.ledger.ordered(read, main));
  CHECK(s.ledger.ordered(read, copy));
  CHECK_FALSE(s.ledger.completed(read));
  s.ledger.complete(marker);
  CHECK(s.ledger.completed(read));
}

TEST_CASE("an independent stream orders as any other does") {
  Streams s;
  const StreamId main = s.ledger.open(), spinning = s.ledger.open({.independent = true});
  CHECK(s.ledger.traits(spinning).independent);
  const Point block = s.freed(spinning);
  s.ledger.join(main, s.record(spinning));  // the program's own wait
  CHECK(s.ledger.ordered(block, main));
}

TEST_CASE("the earliest marker that covers a free is the one to wait for") {
  Streams s;
  const StreamId copy = s.ledger.open();
  s.record(copy);
  const Point block = s.freed(copy);
  const Point first = s.record(copy);
  s.record(copy);
  const auto covering = s.ledger.earliest_covering(block);
  REQUIRE(covering);
  CHECK(covering->point == first);
  CHECK(covering->token == 102);
}

TEST_CASE("recording an event again keeps the order of earlier waiters") {
  Streams s;
  const StreamId main = s.ledger.open(), copy = s.ledger.open(), late = s.ledger.open();
  const Point before = s.freed(copy);
  const Point first = s.record(copy);
  s.ledger.join(main, first);
  s.ledger.withdraw(first);
  const Point between = s.freed(copy);
  const Point second = s.record(copy);

  CHECK(s.ledger.ordered(before, main));
  CHECK_FALSE(s.ledger.ordered(between, main));
  CHECK(s.ledger.earliest_covering(before)->point == second);
  s.ledger.join(late, second);
  CHECK(s.ledger.ordered(between, late));
}

TEST_CASE("a waiter may still join a marker that was withdrawn after its call") {
  Streams s;
  const StreamId main = s.ledger.open(), copy = s.ledger.open();
  const Point block = s.freed(copy);
  const Point marker = s.record(copy);
  s.ledger.withdraw(marker);
  s.ledger.join(main, marker);
  CHECK(s.ledger.ordered(block, main));
  CHECK(s.ledger.complete(marker).empty());
  CHECK(s.ledger.completed(block));
}

TEST_CASE("markers withdrawn long ago are forgotten and order nothing") {
  Streams s;
  const StreamId main = s.ledger.open(), copy = s.ledger.open();
  const Point block = s.freed(copy);
  const Point first = s.record(copy);
  s.ledger.withdraw(first);
  for (int i = 0; i < 1000; ++i) s.ledger.withdraw(s.record(copy));
  s.ledger.join(main, first);
  CHECK_FALSE(s.ledger.ordered(block, main));
}

TEST_CASE("waiting on an event that was never recorded orders nothing") {
  Streams s;
  const StreamId main = s.ledger.open(), copy = s.ledger.open();
  const Point block = s.freed(copy);
  s.ledger.join(main, Point{});
  s.ledger.join(main, Point{copy, 1});
  CHECK_FALSE(s.ledger.ordered(block, main));
}

TEST_CASE("a third stream is ordered after what the second had waited for") {
  Streams s;
  const StreamId a = s.ledger.open(), b = s.ledger.open(), c = s.ledger.open();
  const Point block = s.freed(a);
  s.ledger.join(b, s.record(a));
  s.ledger.join(c, s.record(b));
  CHECK(s.ledger.ordered(block, c));
}

TEST_CASE("an older marker of the second user does not order a third stream after the first") {
  Streams s;
  const StreamId a = s.ledger.open(), b = s.ledger.open(), c = s.ledger.open();
  const Point tail_of_b = s.record(b);
  const Point block = s.freed(a);
  s.ledger.join(b, s.record(a));
  s.ledger.join(c, tail_of_b);
  CHECK(s.ledger.ordered(block, b));
  CHECK_FALSE(s.ledger.ordered(block, c));
}

TEST_CASE("once a marker is complete, all work that it was ordered after is complete") {
  Streams s;
  const StreamId a = s.ledger.open(), b = s.ledger.open();
  const Point block = s.freed(a);
  s.ledger.join(b, s.record(a));
  const Point marker = s.record(b);
  CHECK(s.ledger.complete(marker) == std::vector<MarkerToken>{101, 102});
  CHECK(s.ledger.completed(block));
  CHECK(s.ledger.ordered(block, s.ledger.open()));
}

TEST_CASE("completion of work that was never enqueued is ignored") {
  Streams s;
  const StreamId a = s.ledger.open();
  const Point block = s.freed(a);
  CHECK(s.ledger.complete(Point{a, 1000}).empty());
  CHECK_FALSE(s.ledger.completed(block));
}

TEST_CASE("the oldest outstanding marker of each stream is listed") {
  Streams s;
  const StreamId a = s.ledger.open(), b = s.ledger.open();
  const Point first = s.record(a);
  const Point second = s.record(a);
  const Point other = s.record(b);
  s.ledger.withdraw(first);
  const auto oldest = s.ledger.oldest_outstanding();
  REQUIRE(oldest.size() == 2);
  CHECK(oldest[0].point == second);
  CHECK(oldest[1].point == other);
  s.ledger.complete(second);
  CHECK(s.ledger.oldest_outstanding().size() == 1);
}

TEST_CASE("synchronizing the device completes earlier work of all streams, also of closed ones") {
  Streams s;
  const StreamId a = s.ledger.open(), gone = s.ledger.open();
  const Point on_a = s.freed(a), on_gone = s.freed(gone);
  s.ledger.close(gone);
  const Frontier all = s.ledger.begin_synchronize();
  const Point late = s.freed(a);
  s.ledger.complete(all);
  CHECK(s.ledger.completed(on_a));
  CHECK(s.ledger.completed(on_gone));
  CHECK_FALSE(s.ledger.completed(late));
}

}  // namespace
}  // namespace millrace::test
