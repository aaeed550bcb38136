// Costs of the ledger's queries with much work in flight, and its answers while threads wait.

#include <atomic>
#include <thread>
#include <vector>

#include "test/ordering/streams.hpp"
#include "test/support/catch.hpp"
#include "test/support/steps.hpp"

namespace millrace::test {
namespace {

TEST_CASE("records, searches and completions cost the same with 1,000 and 100,000 markers") {
  const int n = GENERATE(1'000, 100'000);
  Streams s;
  const StreamId main = s.ledger.open(), side = s.ledger.open();
  std::vector<Point> markers;
  const std::uint64_t recording = steps([&] {
    for (int i = 0; i < n; ++i) markers.push_back(s.record(side));
  });
  CHECK(recording < 6 * static_cast<std::uint64_t>(n));
  const std::size_t middle = markers.size() / 2;
  CHECK(steps([&] { CHECK(s.ledger.earliest_covering(markers[middle])); }) < 40);
  CHECK(steps([&] { s.ledger.join(main, markers[middle]); }) < 60);
  CHECK(steps([&] { CHECK(s.ledger.ordered(markers[middle - 1], main)); }) == 0);
  std::vector<MarkerToken> done;
  CHECK(steps([&] { s.ledger.complete(markers[0], done); }) < 60);
  CHECK(done.size() == 1);
  CHECK(steps([&] { s.ledger.complete(markers.back(), done); }) <
        5 * static_cast<std::uint64_t>(n));
  CHECK(done.size() == markers.size());
  CHECK(s.ledger.outstanding_markers() == 0);
}

TEST_CASE("the cost of a record depends on its stream's waits, not on the number of streams") {
  const int k = GENERATE(10, 10'000);
  Streams s;
  std::vector<StreamId> streams;
  for (int i = 0; i < k; ++i) streams.push_back(s.ledger.open());
  for (const StreamId stream : streams) s.record(stream);
  CHECK(steps([&] { s.record(streams[3]); }) < 40);
  CHECK(steps([&] { s.ledger.join(streams[4], s.record(streams[5])); }) < 60);
}

TEST_CASE("wait and record with ten thousand blocking streams cost what they cost with ten") {
  const int k = GENERATE(10, 10'000);
  Streams s;
  const StreamId legacy = s.ledger.open({.legacy = true});
  const StreamId waiter = s.ledger.open({.blocking = false});
  std::vector<StreamId> streams;
  for (int i = 0; i < k; ++i) streams.push_back(s.ledger.open());
  const Point block = s.freed(streams[7]);
  const std::uint64_t taken = steps([&] {
    for (int i = 0; i < 50; ++i) {
      s.record(streams[static_cast<std::size_t>(i) % streams.size()]);
      s.ledger.join(waiter, s.record(legacy));
    }
    CHECK(s.ledger.ordered(block, waiter));
    CHECK(s.ledger.earliest_covering(block));
  });
  CHECK(taken < 50 * 40);
  CHECK(s.ledger.frontier(waiter).covers(block));
  CHECK(steps([&] { s.ledger.complete(s.record(legacy)); }) < 1'500);
  CHECK(s.ledger.completed(block));
  CHECK(s.ledger.outstanding_markers() == 0);
  CHECK(s.ledger.oldest_outstanding().empty());
}

TEST_CASE("a closed blocking stream is forgotten once a later legacy marker is complete") {
  Streams s;
  const StreamId legacy = s.ledger.open({.legacy = true});
  const StreamId once = s.ledger.open();
  const Point block = s.freed(once);
  const Point last = s.record(once);
  const Point marker = s.record(legacy);
  s.ledger.close(once, last.marker);
  CHECK(s.ledger.complete(marker).size() == 2);
  CHECK(s.ledger.tracked_streams() == 1);
  CHECK(s.ledger.completed(block));
}

TEST_CASE("the epoch changes with each new wait and completion, and when a stream is closed") {
  Streams s;
  const StreamId main = s.ledger.open(), side = s.ledger.open();
  const std::uint64_t begin = s.ledger.epoch();
  const Point marker = s.record(side);
  CHECK_FALSE(s.ledger.ordered(s.freed(side), main));
  CHECK(s.ledger.epoch() == begin);
  s.ledger.join(main, marker);
  const std::uint64_t waited = s.ledger.epoch();
  CHECK(waited != begin);
  s.ledger.complete(marker);
  CHECK(s.ledger.epoch() != waited);
  const std::uint64_t complete = s.ledger.epoch();
  s.ledger.complete(marker);
  CHECK(s.ledger.epoch() == complete);
  s.ledger.close(side);
  CHECK(s.ledger.epoch() != complete);
}

TEST_CASE("a query returns the streams with new completions, unless it comes too late") {
  Streams s;
  const StreamId a = s.ledger.open(), b = s.ledger.open();
  std::uint64_t seen = 0;
  std::vector<StreamId> streams;
  s.ledger.complete(s.record(a));
  s.ledger.complete(s.record(b));
  REQUIRE(s.ledger.completed_since(seen, streams));
  CHECK(streams == std::vector{a, b});
  streams.clear();
  REQUIRE(s.ledger.completed_since(seen, streams));
  CHECK(streams.empty());
  s.ledger.complete(s.record(b));
  REQUIRE(s.ledger.completed_since(seen, streams));
  CHECK(streams == std::vector{b});
  streams.clear();
  for (int i = 0; i < 1'000; ++i) s.ledger.complete(s.record(a));
  CHECK_FALSE(s.ledger.completed_since(seen, streams));
  CHECK(streams.empty());
  CHECK(s.ledger.completed_since(seen, streams));
}

TEST_CASE("a query says that any stream may have advanced if the legacy stream has") {
  Streams s;
  const StreamId legacy = s.ledger.open({.legacy = true}), blocking = s.ledger.open();
  const Point block = s.freed(blocking);
  std::uint64_t seen = 0;
  std::vector<StreamId> streams;
  s.ledger.complete(s.record(legacy));
  CHECK_FALSE(s.ledger.completed_since(seen, streams));
  CHECK(s.ledger.completed(block));
}

TEST_CASE("the snapshot of a marker covers the work that is complete once the marker is") {
  Streams s;
  const StreamId a = s.ledger.open(), b = s.ledger.open(), c = s.ledger.open();
  const Point block = s.freed(a);
  s.ledger.join(b, s.record(a));
  const Point marker = s.record(b);
  const Point other = s.freed(c);
  CHECK(s.ledger.snapshot(marker).covers(block));
  CHECK_FALSE(s.ledger.snapshot(marker).covers(other));
  CHECK_FALSE(s.ledger.snapshot(marker).covers(s.freed(a)));
}

TEST_CASE("serials count published markers over all streams") {
  Streams s;
  const StreamId a = s.ledger.open(), b = s.ledger.open();
  CHECK(s.ledger.newest_serial() == 0);
  const Point first = s.record(a);
  static_cast<void>(s.ledger.begin_record(a));
  const Point second = s.record(b);
  CHECK(s.ledger.newest_serial() == 2);
  CHECK(s.ledger.earliest_covering(first)->serial == 1);
  CHECK(s.ledger.earliest_covering(second)->serial == 2);
  CHECK(s.ledger.outstanding(b, 5, 100)->serial == 2);
  CHECK_FALSE(s.ledger.outstanding(b, 0, second.marker));
}

TEST_CASE("a frontier that is read during waits never claims order that does not exist") {
  Streams s;
  const StreamId main = s.ledger.open();
  std::vector<StreamId> sides;
  for (int i = 0; i < 10; ++i) sides.push_back(s.ledger.open());
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, right{0};
  std::vector<std::atomic<Marker>> joined(sides.size());    // surely ordered
  std::vector<std::atomic<Marker>> recorded(sides.size());  // newest that may be ordered
  std::thread reading{[&] {
    for (std::size_t i = 0; !stop; i = (i + 1) % sides.size()) {
      const Marker least = joined[i];
      if (!s.ledger.ordered({sides[i], least}, main)) ++wrong;
      const Marker beyond = recorded[i] + 2;
      if (s.ledger.ordered({sides[i], beyond}, main) && recorded[i] + 1 < beyond) ++wrong;
      ++right;
    }
  }};
  for (int round = 0; round < 2'000 || right < 100; ++round) {
    const std::size_t i = static_cast<std::size_t>(round) % sides.size();
    ++recorded[i];
    const Point marker = s.record(sides[i]);
    s.ledger.join(main, marker);
    joined[i] = marker.marker;
    if (round % 3 == 0) s.ledger.complete(marker);
  }
  stop = true;
  reading.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace millrace::test
