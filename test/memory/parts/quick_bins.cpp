#include "memory/quick_bins.hpp"

#include <set>
#include <vector>

#include "test/support/catch.hpp"

namespace millrace::test {

TEST_CASE("quick bins keep sizes that were asked for, and give the newest block first", "[parts]") {
  QuickBins bins;
  Block one, two;
  CHECK_FALSE(bins.expects(4096));
  CHECK(bins.expect(4096) == nullptr);
  CHECK(bins.expects(4096));
  CHECK(bins.pop(4096) == nullptr);
  bins.push(&one, 4096);
  bins.push(&two, 4096);
  CHECK(bins.blocks() == 2);
  CHECK(bins.pop(8192) == nullptr);
  CHECK(bins.pop(4096) == &two);
  CHECK(bins.pop(4096) == &one);
  CHECK(bins.pop(4096) == nullptr);
}

TEST_CASE("a size that shares a bin with another takes it, and what was there comes out",
          "[parts]") {
  QuickBins bins;
  Block blocks[2];
  CHECK(bins.expect(512) == nullptr);
  bins.push(&blocks[0], 512);
  bins.push(&blocks[1], 512);
  Block* out = nullptr;
  std::size_t other = 512;
  while (out == nullptr) out = bins.expect(other += 512);
  CHECK(bins.expects(other));
  CHECK_FALSE(bins.expects(512));
  CHECK(std::set{out, out->queue_next} == std::set{&blocks[0], &blocks[1]});
  CHECK(out->queue_next->queue_next == nullptr);
  CHECK(bins.blocks() == 0);
}

TEST_CASE("all blocks of all bins come out linked to one another", "[parts]") {
  QuickBins bins;
  std::vector<Block> blocks(100);
  std::set<Block*> kept;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::size_t bytes = 512 * (1 + i % 10);
    for (Block* out = bins.expect(bytes); out != nullptr; out = out->queue_next) kept.erase(out);
    bins.push(&blocks[i], bytes);
    kept.insert(&blocks[i]);
  }
  CHECK(bins.blocks() == kept.size());
  for (Block* block = bins.take_all(); block != nullptr; block = block->queue_next) {
    CHECK(kept.erase(block) == 1);
  }
  CHECK(kept.empty());
  CHECK(bins.blocks() == 0);
  CHECK(bins.take_all() == nullptr);
}

}  // namespace millrace::test
