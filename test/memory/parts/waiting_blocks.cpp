#include "memory/waiting_blocks.hpp"

#include <vector>

#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

constexpr StreamId kOwn{0, 1}, kOther{1, 1}, kThird{2, 1};

void freed(Block& block, Marker own, Marker other) {
  block.bytes = 4096;
  block.lane = kOwn;
  block.points = PointSet{Point{kOwn, own}};
  block.points.join({kOther, other});
}

}  // namespace

TEST_CASE("the point that a block waits for is the only one of another stream", "[parts]") {
  Block block;
  freed(block, 3, 7);
  CHECK(WaitingBlocks::foreign_point(block) == Point{kOther, 7});
  block.points.join({kThird, 1});
  CHECK_FALSE(WaitingBlocks::foreign_point(block).stream.valid());
  block.points = PointSet{Point{kOwn, 3}};
  CHECK_FALSE(WaitingBlocks::foreign_point(block).stream.valid());
}

TEST_CASE("waiting blocks come out in the order of their frees, once their point has passed",
          "[parts]") {
  WaitingBlocks waiting;
  Block first, second;
  freed(first, 1, 5);
  freed(second, 2, 6);
  waiting.push(&first);
  waiting.push(&second);
  CHECK(waiting.next_point() == Point{kOther, 5});
  CHECK_FALSE(waiting.first_is_ready({kOther, 4}));
  CHECK_FALSE(waiting.first_is_ready({kThird, 9}));
  REQUIRE(waiting.first_is_ready({kOther, 5}));
  CHECK(waiting.first() == &first);
  waiting.pop();
  CHECK(waiting.next_point() == Point{kOther, 6});
  CHECK_FALSE(waiting.first_is_ready({kOther, 5}));
  CHECK(waiting.first_is_ready({kOther, 8}));
  CHECK(waiting.take_all(nullptr) == &second);
  CHECK(second.next_quick == nullptr);
  CHECK(waiting.empty());
  CHECK_FALSE(waiting.first_is_ready({kOther, 8}));
}

TEST_CASE("waiting blocks are bounded in number and bytes", "[parts]") {
  WaitingBlocks waiting;
  std::vector<Block> blocks(WaitingBlocks::kMostBlocks + 1);
  std::size_t kept = 0;
  for (Block& block : blocks) {
    freed(block, 1, 1);
    if (!waiting.has_room(block.bytes)) break;
    waiting.push(&block);
    ++kept;
  }
  CHECK(kept == WaitingBlocks::kMostBlocks);
  CHECK_FALSE(waiting.has_room(1));
  Block* all = waiting.take_all(nullptr);
  for (; all != nullptr; all = all->next_quick) --kept;
  CHECK(kept == 0);
  CHECK(waiting.has_room(WaitingBlocks::kMostBytes));
  CHECK_FALSE(waiting.has_room(WaitingBlocks::kMostBytes + 1));
}

}  // namespace millrace::test
