#include "memory/exact_bins.hpp"

#include <set>
#include <vector>

#include "test/support/catch.hpp"

namespace millrace::test {

TEST_CASE("exact bins keep sizes that were requested, and give the newest block first", "[parts]") {
  ExactBins bins;
  Block one, two;
  CHECK_FALSE(bins.expects(ExactBins::size_of(4096)));
  bins.expect(ExactBins::size_of(4096));
  CHECK(bins.expects(ExactBins::size_of(4096)));
  CHECK(bins.pop(ExactBins::size_of(4096)) == nullptr);
  bins.push(&one, ExactBins::size_of(4096));
  bins.push(&two, ExactBins::size_of(4096));
  CHECK(bins.blocks() == 2);
  CHECK(bins.pop(ExactBins::size_of(8192)) == nullptr);
  CHECK(bins.pop(ExactBins::size_of(4096)) == &two);
  CHECK(bins.pop(ExactBins::size_of(4096)) == &one);
  CHECK(bins.pop(ExactBins::size_of(4096)) == nullptr);
}

TEST_CASE("a size takes over a bin from another size when the bin is empty", "[parts]") {
  ExactBins bins;
  Block block;
  std::size_t other = 512;
  do {  // until a size shares the bin of 512
    other += 512;
    bins = {};
    bins.expect(ExactBins::size_of(512));
    bins.expect(ExactBins::size_of(other));
  } while (bins.expects(ExactBins::size_of(512)));
  bins = {};
  bins.expect(ExactBins::size_of(512));
  bins.push(&block, ExactBins::size_of(512));
  bins.expect(ExactBins::size_of(other));
  CHECK_FALSE(bins.expects(ExactBins::size_of(other)));
  CHECK(bins.pop(ExactBins::size_of(512)) == &block);
  bins.expect(ExactBins::size_of(other));
  CHECK(bins.expects(ExactBins::size_of(other)));
  CHECK_FALSE(bins.expects(ExactBins::size_of(512)));
}

TEST_CASE("an exact bin keeps a bounded number of blocks", "[parts]") {
  ExactBins bins;
  std::vector<Block> blocks(ExactBins::kMost);
  bins.expect(ExactBins::size_of(512));
  for (Block& block : blocks) {
    REQUIRE(bins.expects(ExactBins::size_of(512)));
    bins.push(&block, ExactBins::size_of(512));
  }
  CHECK_FALSE(bins.expects(ExactBins::size_of(512)));
  CHECK(bins.pop(ExactBins::size_of(512)) == &blocks.back());
  CHECK(bins.expects(ExactBins::size_of(512)));
}

TEST_CASE("taking all blocks of all bins gives one linked list", "[parts]") {
  ExactBins bins;
  std::vector<Block> blocks(100);
  std::set<Block*> kept;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::size_t bytes = 512 * (1 + i % 10);
    bins.expect(ExactBins::size_of(bytes));
    if (!bins.expects(ExactBins::size_of(bytes))) continue;
    bins.push(&blocks[i], ExactBins::size_of(bytes));
    kept.insert(&blocks[i]);
  }
  CHECK(bins.blocks() == kept.size());
  for (Block* block = bins.take_all(); block != nullptr; block = block->next_quick) {
    CHECK(kept.erase(block) == 1);
  }
  CHECK(kept.empty());
  CHECK(bins.blocks() == 0);
  CHECK(bins.take_all() == nullptr);
}

}  // namespace millrace::test
