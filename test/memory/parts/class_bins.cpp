#include "memory/class_bins.hpp"

#include <random>
#include <set>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

void push(ClassBins& bins, Block& block, std::size_t bytes) {
  block.bytes = bytes;
  bins.push(&block, ClassBins::size_of(bytes));
}

}  // namespace

TEST_CASE("class bins give the newest block of the exact size, then a larger one", "[parts]") {
  ClassBins bins;
  Block older, newer, larger;
  push(bins, older, 16 * KiB);
  push(bins, newer, 16 * KiB);
  push(bins, larger, 17 * KiB);
  CHECK(bins.pop(ClassBins::size_of(16 * KiB), 2 * KiB) == &newer);
  CHECK(bins.pop(ClassBins::size_of(16 * KiB), 2 * KiB) == &older);
  CHECK(bins.pop(ClassBins::size_of(16 * KiB), 2 * KiB) == &larger);
  CHECK(bins.pop(ClassBins::size_of(16 * KiB), 2 * KiB) == nullptr);
}

TEST_CASE("a block of the next class serves a request if it wastes little", "[parts]") {
  ClassBins bins;
  Block block;
  push(bins, block, 33 * KiB);
  CHECK(bins.may_have(ClassBins::size_of(31 * KiB)));
  CHECK(bins.pop(ClassBins::size_of(31 * KiB), 2 * KiB - 1) == nullptr);
  CHECK(bins.pop(ClassBins::size_of(31 * KiB), 2 * KiB) == &block);
  CHECK_FALSE(bins.may_have(ClassBins::size_of(31 * KiB)));
}

TEST_CASE("a block from class bins is large enough and wastes at most an eighth", "[parts]") {
  std::mt19937_64 random{seed()};
  CAPTURE(seed());
  ClassBins bins;
  std::vector<Block> blocks(2000);
  std::set<Block*> kept;
  std::size_t served = 0;
  const auto draw = [&] { return (1 + random() % 2048) * 512; };
  for (Block& block : blocks) {
    if (const std::size_t bytes = draw(); bins.has_room(ClassBins::size_of(bytes))) {
      push(bins, block, bytes);
      kept.insert(&block);
    }
    const std::size_t asked = draw();
    Block* const got = bins.pop(ClassBins::size_of(asked), asked / 8);
    if (got == nullptr) continue;
    ++served;
    REQUIRE(kept.erase(got) == 1);
    REQUIRE(got->bytes >= asked);
    REQUIRE(got->bytes - asked <= asked / 8);
  }
  CHECK(served > 0);
  for (Block* block = bins.take_from(ClassBins::kGranule, nullptr); block != nullptr;
       block = block->next_quick) {
    CHECK(kept.erase(block) == 1);
  }
  CHECK(kept.empty());
}

TEST_CASE("a class bin keeps at most 256 blocks and 4 MiB", "[parts]") {
  std::vector<Block> blocks(300);
  for (std::size_t bytes = 512; bytes <= ClassBins::kLargest; bytes += 512) {
    CAPTURE(bytes);
    ClassBins bins;
    std::size_t kept = 0;
    while (kept < blocks.size() && bins.has_room(ClassBins::size_of(bytes)))
      push(bins, blocks[kept++], bytes);
    REQUIRE(kept >= 1);
    REQUIRE(kept <= 256);
    REQUIRE(kept * bytes <= kMostBytesInBin);
    REQUIRE(bins.pop(ClassBins::size_of(bytes), 0) == &blocks[kept - 1]);
    REQUIRE(bins.has_room(ClassBins::size_of(bytes)));
  }
}

}  // namespace millrace::test
