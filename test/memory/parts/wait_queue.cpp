// Compares a queue of blocks by marker with a list that is searched.
#include "memory/wait_queue.hpp"

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

/// Markers in one of four orders, which the seed selects: mostly rising, equal, falling or random.
class Markers {
 public:
  explicit Markers(std::uint64_t seed) : random_(seed), way_(random_() % 4) {}

  Marker next() {
    ++turn_;
    switch (way_) {
      case 0:
        return 1'000 + turn_ / 3 - random_() % 3;
      case 1:
        return 7;
      case 2:
        return 1'000'000 - turn_ / 2;
      default:
        return 1 + random_() % 20;
    }
  }

 private:
  std::mt19937_64 random_;
  std::uint64_t way_, turn_ = 0;
};

constexpr StreamId kStream{3, 1};

Marker marker_of(const Block& block) { return block.points.on(kStream); }

void insert(WaitQueue& queue, Block& block, Marker marker) {
  block.points = PointSet{{kStream, marker}};
  queue.insert(&block, marker);
}

void check(const WaitQueue& queue, const std::vector<Block*>& model) {
  std::size_t bytes = 0, visited = 0;
  Marker least = ~Marker{0}, before = 0;
  for (const Block* const block : model) {
    bytes += block->bytes;
    least = std::min(least, marker_of(*block));
  }
  REQUIRE(queue.bytes() == bytes);
  REQUIRE(queue.empty() == model.empty());
  if (!model.empty()) {
    REQUIRE(marker_of(*queue.front()) == least);
    REQUIRE(queue.front_point() == Point{queue.stream(), least});
    REQUIRE(queue.holds_one() == (model.size() == 1));
  }
  REQUIRE(queue.visit([&](const Block& block) {
    ++visited;
    REQUIRE(std::ranges::count(model, &block) == 1);
    REQUIRE(marker_of(block) >= before);
    before = marker_of(block);
    return true;
  }));
  REQUIRE(visited == model.size());
}

}  // namespace

TEST_CASE("a queue gives the block of the earliest marker after any insertions and erasures",
          "[parts]") {
  for (std::uint64_t round = 0; round < 40; ++round) {
    std::mt19937_64 random{seed() * 100 + round};
    Markers markers{random()};
    std::pmr::unsynchronized_pool_resource memory;
    WaitQueue queue{nullptr, kStream, BlockWaits::for_all, memory};
    std::deque<Block> blocks(60);
    std::vector<Block*> out, in;
    for (Block& block : blocks) out.push_back(&block);
    for (int step = 0; step < 600; ++step) {
      const std::uint64_t filling = step / 100 % 2 == 0 ? 4 : 1;  // insertions in 5 steps
      const bool inserts = in.empty() || (!out.empty() && random() % 5 < filling);
      auto& from = inserts ? out : in;
      auto& to = inserts ? in : out;
      auto chosen = from.begin() + static_cast<std::ptrdiff_t>(random() % from.size());
      // Half of the erasures take the front, as code that empties a queue does.
      if (!inserts && random() % 2 == 0) chosen = std::ranges::find(from, queue.front());
      Block* const block = *chosen;
      from.erase(chosen);
      to.push_back(block);
      if (inserts) {
        block->bytes = 512 * (1 + random() % 9);
        insert(queue, *block, markers.next());
        REQUIRE(block->free.queue == &queue);
      } else {
        queue.erase(block);
        REQUIRE(block->free.queue == nullptr);
      }
      check(queue, in);
    }
  }
}

TEST_CASE("a visit of a queue ends when the visitor stops it", "[parts]") {
  std::pmr::unsynchronized_pool_resource memory;
  WaitQueue queue{nullptr, kStream, BlockWaits::for_all, memory};
  std::deque<Block> blocks(10);
  for (Marker i = 0; i < blocks.size(); ++i) insert(queue, blocks[i], i / 2);
  int visited = 0;
  CHECK_FALSE(queue.visit([&](const Block&) { return ++visited < 5; }));
  CHECK(visited == 5);
}

}  // namespace millrace::test
