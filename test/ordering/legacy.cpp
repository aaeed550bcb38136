#include "test/ordering/streams.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

constexpr StreamTraits kLegacy{.legacy = true};
constexpr StreamTraits kNonBlocking{.blocking = false};

TEST_CASE("the legacy stream's next operation follows all blocking streams, and they follow it") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy);
  const StreamId blocking = s.ledger.open(), free_running = s.ledger.open(kNonBlocking);
  CHECK(s.ledger.ordered(s.freed(blocking), legacy));
  CHECK(s.ledger.ordered(s.freed(legacy), blocking));
  CHECK_FALSE(s.ledger.ordered(s.freed(free_running), legacy));
  CHECK_FALSE(s.ledger.ordered(s.freed(legacy), free_running));
}

TEST_CASE("a marker on the legacy stream covers what was freed on blocking streams before it") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy);
  const StreamId blocking = s.ledger.open(), waiter = s.ledger.open(kNonBlocking);
  const Point before = s.freed(blocking);
  const Point marker = s.record(legacy);
  const Point after = s.freed(blocking);
  s.ledger.join(waiter, marker);
  CHECK(s.ledger.ordered(before, waiter));
  CHECK_FALSE(s.ledger.ordered(after, waiter));
}

TEST_CASE("a marker on the legacy stream can be waited for in place of a blocking stream's own") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy), blocking = s.ledger.open();
  const StreamId waiter = s.ledger.open(kNonBlocking);
  const Point block = s.freed(blocking);
  s.record(legacy);
  const auto covering = s.ledger.earliest_covering(block);
  REQUIRE(covering);
  CHECK(covering->token == s.last_token);
  s.ledger.join(waiter, covering->point);
  CHECK(s.ledger.ordered(block, waiter));
}

TEST_CASE("two blocking streams are ordered by a marker on the legacy stream between them") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy);
  const StreamId first = s.ledger.open(), second = s.ledger.open();
  const Point block = s.freed(first);
  CHECK_FALSE(s.ledger.ordered(block, second));
  s.record(legacy);
  CHECK(s.ledger.ordered(block, second));
  CHECK(s.ledger.ordered(block, s.ledger.open()));
  CHECK_FALSE(s.ledger.ordered(block, s.ledger.open(kNonBlocking)));
}

TEST_CASE("blocking streams follow what the legacy stream waited for") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy), blocking = s.ledger.open();
  const StreamId side = s.ledger.open(kNonBlocking), waiter = s.ledger.open(kNonBlocking);
  const Point block = s.freed(side);
  s.ledger.join(legacy, s.record(side));
  CHECK(s.ledger.ordered(block, blocking));
  s.ledger.join(waiter, s.record(blocking));
  CHECK(s.ledger.ordered(block, waiter));
}

TEST_CASE("a marker on a blocking stream covers what was freed on the legacy stream before it") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy), blocking = s.ledger.open();
  const StreamId waiter = s.ledger.open(kNonBlocking);
  const Point block = s.freed(legacy);
  s.ledger.join(waiter, s.record(blocking));
  CHECK(s.ledger.ordered(block, waiter));
}

TEST_CASE("synchronizing the legacy stream does not complete work of blocking streams") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy), blocking = s.ledger.open();
  const Point there = s.freed(legacy), elsewhere = s.freed(blocking);
  s.ledger.complete(s.ledger.begin_synchronize(legacy));
  CHECK(s.ledger.completed(there));
  CHECK_FALSE(s.ledger.completed(elsewhere));
}

TEST_CASE("synchronizing an idle blocking stream does not complete legacy work") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy), blocking = s.ledger.open();
  const Point block = s.freed(legacy);
  s.record(legacy);
  s.ledger.complete(s.ledger.begin_synchronize(blocking));
  CHECK_FALSE(s.ledger.completed(block));
  s.record(blocking);
  s.ledger.complete(s.ledger.begin_synchronize(blocking));
  CHECK(s.ledger.completed(block));
}

TEST_CASE("a token that stands for several streams is given back once, with its own stream") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy), blocking = s.ledger.open();
  const Point marker = s.record(legacy);
  CHECK(s.ledger.complete(s.ledger.begin_synchronize(blocking)).empty());
  CHECK(s.ledger.oldest_outstanding().size() == 1);
  CHECK(s.ledger.complete(marker) == std::vector{s.last_token});
  CHECK(s.ledger.oldest_outstanding().empty());
}

TEST_CASE("completion of a blocking stream's work does not complete a later legacy marker") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy), blocking = s.ledger.open();
  const Point on_legacy = s.freed(legacy), on_blocking = s.freed(blocking);
  s.record(legacy);
  CHECK(s.ledger.complete(on_blocking).empty());
  CHECK(s.ledger.completed(on_blocking));
  CHECK_FALSE(s.ledger.completed(on_legacy));
}

TEST_CASE("a withdrawn legacy marker cannot be waited for on any stream") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy), blocking = s.ledger.open();
  const Point block = s.freed(blocking);
  s.ledger.withdraw(s.record(legacy));
  CHECK_FALSE(s.ledger.earliest_covering(block));
}

TEST_CASE("a per-thread default stream is a blocking stream like any other") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy);
  const StreamId mine = s.ledger.open(), yours = s.ledger.open();  // streams of two threads
  const Point block = s.freed(mine);
  CHECK(s.ledger.ordered(block, legacy));
  CHECK_FALSE(s.ledger.ordered(block, yours));
}

TEST_CASE("no wait for an independent blocking stream is inserted by way of the legacy stream") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy), blocking = s.ledger.open();
  CHECK_FALSE(s.ledger.traits(legacy).independent);
  const StreamId spinning = s.ledger.open({.independent = true});
  const Point block = s.freed(blocking);
  s.record(legacy);
  CHECK(s.ledger.traits(legacy).independent);
  CHECK_FALSE(s.ledger.traits(blocking).independent);
  CHECK_FALSE(s.ledger.earliest_covering(block));
  s.record(spinning);
  CHECK(s.ledger.traits(spinning).independent);
}

TEST_CASE("a stream found to be blocking keeps its order, and is ordered with the legacy stream") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy), side = s.ledger.open(kNonBlocking);
  const StreamId stream = s.ledger.open(kNonBlocking);
  const Point before = s.freed(side), on_legacy = s.freed(legacy);
  s.ledger.join(stream, s.record(side));
  CHECK_FALSE(s.ledger.ordered(on_legacy, stream));
  s.ledger.set_traits(stream, {});
  CHECK(s.ledger.ordered(before, stream));
  CHECK(s.ledger.ordered(on_legacy, stream));
  s.ledger.set_traits(stream, kNonBlocking);
  CHECK_FALSE(s.ledger.ordered(on_legacy, stream));
  CHECK_THROWS_AS(s.ledger.set_traits(stream, kLegacy), std::invalid_argument);
}

TEST_CASE("only one legacy stream can be open") {
  Streams s;
  const StreamId legacy = s.ledger.open(kLegacy);
  CHECK_THROWS_AS(s.ledger.open(kLegacy), std::invalid_argument);
  s.ledger.close(legacy);
  CHECK(s.ledger.is_open(s.ledger.open(kLegacy)));
}

}  // namespace
}  // namespace millrace::test
