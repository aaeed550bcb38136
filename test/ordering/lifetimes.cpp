#include <atomic>
#include <deque>
#include <thread>
#include <vector>

#include "test/ordering/streams.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

TEST_CASE("a stream in the slot of a destroyed stream is not mistaken for it") {
  Streams s;
  const StreamId user = s.ledger.open();
  const StreamId dead = s.ledger.open();
  const Point block = s.freed(dead);
  const Point last = s.record(dead);
  s.ledger.close(dead, last.marker);
  const StreamId next = s.ledger.open();  // the driver may reuse the handle

  CHECK(next != dead);
  CHECK_FALSE(s.ledger.is_open(dead));
  CHECK_FALSE(s.ledger.ordered(block, next));
  s.ledger.join(user, s.record(next));
  CHECK_FALSE(s.ledger.ordered(block, user));
  s.ledger.complete(s.ledger.begin_synchronize(next));
  CHECK_FALSE(s.ledger.completed(block));
}

TEST_CASE("markers of a closed stream can be waited for and completed") {
  Streams s;
  const StreamId user = s.ledger.open(), dead = s.ledger.open();
  const Point block = s.freed(dead);
  const Point last = s.record(dead);
  s.ledger.close(dead, last.marker);
  REQUIRE(s.ledger.earliest_covering(block));
  CHECK(s.ledger.earliest_covering(block)->point == last);
  s.ledger.join(user, last);
  CHECK(s.ledger.ordered(block, user));
  CHECK(s.ledger.complete(last) == std::vector{s.last_token});
  CHECK(s.ledger.completed(block));
}

TEST_CASE("a free on a closed stream has the stream's last marker") {
  Streams s;
  const StreamId user = s.ledger.open(), dead = s.ledger.open();
  const Point last = s.record(dead);
  const Point just_before = s.freed(dead);
  s.ledger.close(dead, last.marker);
  const Point after = s.freed(dead);
  CHECK(after == last);
  CHECK(s.ledger.earliest_covering(just_before)->point == last);
  s.ledger.join(user, last);
  CHECK(s.ledger.ordered(after, user));
  CHECK(s.ledger.ordered(just_before, user));
}

TEST_CASE("work after a closed stream's last marker completes with a device synchronization") {
  Streams s;
  const StreamId user = s.ledger.open(), dead = s.ledger.open();
  const Point marker = s.record(dead);
  const Point block = s.freed(dead);
  s.ledger.close(dead);
  s.ledger.complete(marker);
  CHECK_FALSE(s.ledger.ordered(block, user));
  CHECK_FALSE(s.ledger.earliest_covering(block));
  s.ledger.complete(s.ledger.begin_synchronize());
  CHECK(s.ledger.ordered(block, user));
}

TEST_CASE("closing a stream orders nothing") {
  Streams s;
  const StreamId legacy = s.ledger.open({.legacy = true});
  const StreamId user = s.ledger.open(), dead = s.ledger.open();
  const Point block = s.freed(dead);
  s.ledger.close(dead);
  CHECK_FALSE(s.ledger.ordered(block, user));
  CHECK_FALSE(s.ledger.ordered(block, legacy));
  CHECK_FALSE(s.ledger.ordered(block, dead));
}

TEST_CASE("a closed stream and a stream that was never opened are refused") {
  Streams s;
  const StreamId gone = s.ledger.open();
  s.ledger.close(gone);
  CHECK_THROWS_AS(s.ledger.close(gone), std::invalid_argument);
  CHECK_THROWS_AS(s.ledger.begin_record(gone), std::invalid_argument);
  CHECK_THROWS_AS(s.ledger.join(gone, Point{}), std::invalid_argument);
  CHECK_THROWS_AS(s.ledger.next(StreamId{}), std::invalid_argument);
  CHECK_THROWS_AS(s.ledger.next(StreamId{77, 1}), std::invalid_argument);
  CHECK_FALSE(s.ledger.ordered(Point{StreamId{77, 1}, 1}, gone));
  const StreamId open = s.ledger.open();
  CHECK_THROWS_AS(s.ledger.close(open, 1), std::invalid_argument);
}

TEST_CASE("a hundred thousand one-shot streams leave no state once they are complete") {
  Streams s;
  const StreamId main = s.ledger.open();
  std::deque<Point> blocks, markers;
  for (int i = 0; i < 100'000; ++i) {
    const StreamId once = s.ledger.open();
    blocks.push_back(s.freed(once));
    markers.push_back(s.record(once));
    s.ledger.close(once, markers.back().marker);
    s.ledger.join(main, markers.back());
    if (markers.size() == 8) {
      const auto tokens = s.ledger.complete(markers.front());
      REQUIRE(tokens.size() == 1);
      markers.pop_front();
    }
    REQUIRE(s.ledger.tracked_streams() <= 9);
    REQUIRE(s.ledger.frontier(main).size() <= 9);
  }
  for (const Point marker : markers) s.ledger.complete(marker);
  CHECK(s.ledger.tracked_streams() == 1);
  CHECK(s.ledger.oldest_outstanding().empty());
  CHECK(s.ledger.frontier(main).size() == 1);
  CHECK(s.ledger.completed_frontier().size() <= 9);
  for (const Point block : blocks) REQUIRE(s.ledger.completed(block));
}

TEST_CASE("frontiers and snapshots keep only what is not known to be complete") {
  Streams s;
  const StreamId main = s.ledger.open(), a = s.ledger.open(), b = s.ledger.open();
  const Point of_a = s.record(a);
  s.ledger.join(main, of_a);
  s.ledger.join(main, s.record(b));
  const Point marker = s.record(main);
  CHECK(s.ledger.snapshot(marker).size() == 3);
  s.ledger.complete(of_a);
  CHECK(s.ledger.snapshot(marker).size() == 2);
  CHECK(s.ledger.frontier(main).size() == 2);
  CHECK(s.ledger.begin_record(main).before.size() == 1);
}

TEST_CASE("a free by another thread is covered by the first record that begins after it") {
  Streams s;
  const StreamId copy = s.ledger.open();
  std::atomic<int> enqueued{0};  // stands for the driver's queue
  std::atomic<bool> stop{false};
  std::vector<std::pair<Point, int>> frees;
  std::thread freeing{[&] {
    for (int i = 1; i <= 20'000; ++i) {
      enqueued = i;
      frees.emplace_back(s.freed(copy), i);
    }
    stop = true;
  }};
  std::vector<std::pair<Point, int>> markers;  // with the queue's last entry at the record
  while (!stop) {
    PendingRecord record = s.ledger.begin_record(copy);
    const int seen = enqueued;
    markers.emplace_back(record.point, seen);
    s.ledger.publish_record(std::move(record), markers.size());
  }
  freeing.join();
  markers.emplace_back(s.record(copy), enqueued);

  auto marker = markers.begin();
  for (const auto& [point, use] : frees) {
    while (marker->first.marker < point.marker) ++marker;
    REQUIRE(use <= marker->second);
  }
}

TEST_CASE("threads that open, record, wait, complete and close leave no tracked stream") {
  Streams s;
  const StreamId main = s.ledger.open({.legacy = true});
  std::atomic<MarkerToken> token{0};
  std::atomic<std::size_t> returned{0}, wrong{0};
  const auto work = [&] {
    for (int i = 0; i < 2'000; ++i) {
      const StreamId once = s.ledger.open({.blocking = i % 2 == 0});
      const Point block = s.freed(once);
      PendingRecord record = s.ledger.begin_record(once);
      const Point marker = record.point;
      s.ledger.publish_record(std::move(record), ++token);
      s.ledger.join(main, marker);
      if (!s.ledger.ordered(block, main)) ++wrong;
      s.ledger.close(once, marker.marker);
      returned += s.ledger.complete(marker).size();
      if (!s.ledger.completed(block)) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(returned == 8'000);
  CHECK(s.ledger.tracked_streams() == 1);
}

}  // namespace
}  // namespace millrace::test
