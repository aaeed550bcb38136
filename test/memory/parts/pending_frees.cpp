// Compares the frees that wait for a poll with a list that is searched.
#include "memory/pending_frees.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "test/ordering/streams.hpp"
#include "test/support/catch.hpp"
#include "test/support/host_memory/failing_host_memory.hpp"
#include "test/support/seed.hpp"
#include "test/support/steps.hpp"

namespace millrace::test {
namespace {

/// Keeps the frees in their order and checks each of them at every poll.
struct FreesModel {
  const Ledger& ledger;
  std::vector<Block*> frees;

  [[nodiscard]] bool waits(const Block& block, Point point) const {
    return point.stream != block.lane && !ledger.completed(point);
  }
  [[nodiscard]] bool waits(const Block& block) const {
    return std::ranges::any_of(block.points,
                               [&](const Point point) { return waits(block, point); });
  }
  std::vector<Block*> completed() {
    std::vector<Block*> result;
    std::ranges::copy_if(frees, std::back_inserter(result),
                         [&](const Block* block) { return !waits(*block); });
    std::erase_if(frees, [&](const Block* block) { return !waits(*block); });
    return result;
  }
};

/// Checks that a wait for `pending.points()` covers all points that the frees wait for. It may
/// extend to newer markers of the same streams, and includes no other stream.
void check_points(const PendingFrees& pending, const FreesModel& model,
                  const std::map<StreamId, Marker>& newest) {
  const PointSet points = pending.points();
  for (const Block* const block : model.frees) {
    for (const Point needed : block->points) {
      if (!model.waits(*block, needed)) continue;
      REQUIRE(std::ranges::any_of(points, [&](const Point point) {
        return point.stream == needed.stream && point.marker >= needed.marker;
      }));
    }
  }
  for (const Point point : points) {
    REQUIRE(point.marker <= newest.at(point.stream));
    REQUIRE(std::ranges::any_of(model.frees, [&](const Block* block) {
      return std::ranges::any_of(block->points, [&](const Point needed) {
        return needed.stream == point.stream && needed.stream != block->lane;
      });
    }));
  }
  REQUIRE(std::ranges::is_sorted(points, {}, &Point::stream));
}

void check_frees(const PendingFrees& pending, const FreesModel& model) {
  REQUIRE(pending.size() == model.frees.size());
  REQUIRE(pending.empty() == model.frees.empty());
  std::size_t bytes = 0, visited = 0;
  for (const Block* const block : model.frees) bytes += block->bytes;
  REQUIRE(pending.bytes() == bytes);
  pending.visit([&](const Block& block) {
    ++visited;
    REQUIRE(std::ranges::count(model.frees, &block) == 1);
    return true;
  });
  REQUIRE(visited == model.frees.size());
}

}  // namespace

TEST_CASE("frees come back once all their markers are complete, in the order of the frees",
          "[parts]") {
  for (std::uint64_t round = 0; round < 40; ++round) {
    std::mt19937_64 random{seed() * 100 + round};
    Streams s;
    std::vector<StreamId> streams;
    std::map<StreamId, Marker> newest;
    std::vector<Point> recorded;  // not known to be complete
    for (std::uint64_t i = 0; i < 1 + round % 6; ++i) streams.push_back(s.ledger.open());
    PendingFrees pending{s.ledger};
    FreesModel model{s.ledger, {}};
    std::deque<Block> blocks;
    const auto any = [&] { return streams[random() % streams.size()]; };
    for (int step = 0; step < 400; ++step) {
      switch (random() % 5) {
        case 0:
          recorded.push_back(s.record(any()));
          break;
        case 1:
          if (!recorded.empty()) {  // in any order, and some never
            const std::size_t which = random() % recorded.size();
            s.ledger.complete(recorded[which]);
            recorded.erase(recorded.begin() + static_cast<std::ptrdiff_t>(which));
          }
          break;
        case 2:
          REQUIRE(pending.completed() == model.completed());
          break;
        default:
          Block& block = blocks.emplace_back();
          block.bytes = 512 * (1 + random() % 9);
          block.lane = any();
          for (std::uint64_t uses = random() % 4; uses > 0; --uses) {
            const Point point = s.freed(any());
            block.points.join(point);
            newest[point.stream] = std::max(newest[point.stream], point.marker);
          }
          pending.insert(&block);
          model.frees.push_back(&block);
      }
      check_frees(pending, model);
      check_points(pending, model, newest);
    }
    for (const StreamId stream : streams) s.ledger.complete(s.record(stream));
    REQUIRE(pending.completed() == model.completed());
    CHECK(pending.empty());
    CHECK(pending.points().empty());
  }
}

TEST_CASE("a poll does not look at streams that earlier frees waited for", "[parts]") {
  Streams s;
  PendingFrees pending{s.ledger};
  std::deque<Block> blocks;
  const std::size_t points_of_each = GENERATE(1, 2);
  const auto free_and_complete = [&](std::size_t n) {
    std::vector<StreamId> streams;
    for (std::size_t i = 0; i < n; ++i) {
      Block& block = blocks.emplace_back();
      for (std::size_t point = 0; point < points_of_each; ++point) {
        streams.push_back(s.ledger.open());
        block.points.join(s.freed(streams.back()));
      }
      pending.insert(&block);
    }
    for (const StreamId stream : streams) s.ledger.complete(s.record(stream));
    REQUIRE(pending.completed().size() == n);
    REQUIRE(pending.points().empty());
  };
  free_and_complete(1000);
  CHECK(steps([&] { REQUIRE(pending.completed().empty()); }) <= 16);
}

TEST_CASE("frees wait for streams that many other frees have waited for before", "[parts]") {
  Streams s;
  PendingFrees pending{s.ledger};
  std::deque<Block> blocks;
  std::vector<StreamId> streams;
  for (int i = 0; i < 40; ++i) streams.push_back(s.ledger.open());
  for (int round = 0; round < 3; ++round) {
    for (const StreamId stream : streams) {
      Block& block = blocks.emplace_back();
      block.points.set(s.freed(stream));
      pending.insert(&block);
    }
    REQUIRE(pending.completed().empty());
    REQUIRE(pending.points().size() == streams.size());
    for (const StreamId stream : streams) s.ledger.complete(s.record(stream));
    REQUIRE(pending.completed().size() == streams.size());
    std::ranges::reverse(streams);
  }
}

TEST_CASE("a poll that runs out of host memory loses no block", "[parts]") {
  std::uint64_t number = 1;
  for (bool failed = true; failed; ++number) {
    INFO("allocation " << number);
    Streams s;
    std::vector<StreamId> streams;
    for (int i = 0; i < 12; ++i) streams.push_back(s.ledger.open());
    PendingFrees pending{s.ledger};
    FreesModel model{s.ledger, {}};
    std::map<StreamId, Marker> newest;
    std::deque<Block> blocks;
    // They wait for few markers first, and for many afterwards.
    for (std::size_t i = 0; i < 400; ++i) {
      Block& block = blocks.emplace_back();
      block.bytes = 512 * (1 + i % 7);
      for (const StreamId stream : {streams[i % 6], streams[6 + i % 3], streams[9 + i % 2]}) {
        if (stream != streams[i % 6]) s.record(stream);
        block.points.join(s.freed(stream));
        newest[stream] = s.ledger.next(stream);
      }
      pending.insert(&block);
      model.frees.push_back(&block);
    }
    for (const std::size_t i : {0, 6, 9}) s.ledger.complete(s.record(streams[i]));
    REQUIRE(pending.completed() == model.completed());
    for (std::size_t i = 1; i < 9; ++i) s.ledger.complete(s.record(streams[i]));
    const std::vector<Block*>* completed = nullptr;
    try {
      const FailingHostMemory failing{number, 1 + number % 2};
      completed = &pending.completed();
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the next call goes on
    }
    failed = FailingHostMemory::failed();
    REQUIRE(failed == (completed == nullptr));
    if (!failed) REQUIRE(*completed == model.completed());
    check_frees(pending, model);
    check_points(pending, model, newest);
    REQUIRE(pending.completed() == model.completed());
    Block& last = blocks.emplace_back();
    last.points.join(s.freed(streams[6]));
    last.points.join(s.freed(streams[10]));
    newest[streams[10]] = std::max(newest[streams[10]], s.ledger.next(streams[10]));
    newest[streams[6]] = std::max(newest[streams[6]], s.ledger.next(streams[6]));
    pending.insert(&last);
    model.frees.push_back(&last);
    check_points(pending, model, newest);
    for (const StreamId stream : streams) s.ledger.complete(s.record(stream));
    REQUIRE(pending.completed() == model.completed());
    REQUIRE(pending.empty());
  }
  CHECK(number > 2);
}

TEST_CASE("blocks that are put back come out of the next poll, in the order of the frees",
          "[parts]") {
  Streams s;
  PendingFrees pending{s.ledger};
  FreesModel model{s.ledger, {}};
  std::deque<Block> blocks(4);
  const StreamId stream = s.ledger.open();
  for (Block& block : blocks) {
    block.bytes = 512;
    block.points.set(s.freed(stream));
    pending.insert(&block);
    model.frees.push_back(&block);
  }
  s.ledger.complete(s.record(stream));
  const std::vector<Block*> all = pending.completed();
  REQUIRE(all.size() == 4);
  pending.put_back(std::span{all}.subspan(1));
  model.frees.erase(model.frees.begin());
  check_frees(pending, model);
  CHECK(pending.any_done());
  Block& another = blocks.emplace_back();
  another.bytes = 512;
  pending.insert(&another);
  CHECK(pending.completed() == std::vector<Block*>{all[1], all[2], all[3], &another});
  CHECK(pending.empty());
  CHECK(pending.bytes() == 0);
}

TEST_CASE("a free with a point of no stream waits for nothing", "[parts]") {
  Streams s;
  PendingFrees pending{s.ledger};
  Block block;
  block.points.set(Point{});
  pending.insert(&block);
  CHECK(pending.any_done());
  CHECK(pending.completed() == std::vector<Block*>{&block});
  CHECK(pending.empty());
}

}  // namespace millrace::test
