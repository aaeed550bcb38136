// Compares runs of free neighbors with a walk over all blocks.
#include "memory/runs.hpp"

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"
#include "test/support/steps.hpp"

namespace millrace::test {
namespace {

class Row {
 public:
  explicit Row(std::size_t count) : blocks_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      Block& block = blocks_[i];
      block.segment = &segment_;
      block.bytes = 512 * (1 + i % 7);
      block.state = BlockState::live;
      if (i > 0) block.previous = &blocks_[i - 1];
      if (i + 1 < count) block.next = &blocks_[i + 1];
    }
  }

  void flip(std::size_t i) {
    Block& block = blocks_[i];
    const bool frees = block.state == BlockState::live;
    block.state = frees ? BlockState::free : BlockState::claimed;
    if (frees) {
      runs.freed(&block);
    } else {
      runs.claimed(&block);
      block.state = BlockState::live;
    }
  }

  [[nodiscard]] bool free(std::size_t i) const { return blocks_[i].state == BlockState::free; }

  /// Checks that each run consists of free neighbors and has the size that it states. Runs must not
  /// overlap.
  void check() const {
    std::set<const Block*> seen;
    runs.visit(false, 1, [&](const Run& run) {
      REQUIRE(run.count >= 2);
      REQUIRE(run.count <= Runs::kMost);
      const Block* block = run.first;
      std::size_t bytes = 0;
      for (std::size_t i = 0; i < run.count; ++i, block = block->next) {
        REQUIRE(block->state == BlockState::free);
        REQUIRE(seen.insert(block).second);
        REQUIRE(block->bytes >= run.at_least);
        bytes += block->bytes;
      }
      REQUIRE(run.bytes == bytes);
      return true;
    });
    // Two free neighbors outside of all runs would be a missing run.
    for (std::size_t i = 1; i < blocks_.size(); ++i) {
      const bool both = free(i - 1) && free(i);
      REQUIRE((!both || seen.contains(&blocks_[i - 1]) || seen.contains(&blocks_[i])));
    }
  }

  Runs runs;

 private:
  Segment segment_;
  std::deque<Block> blocks_;
};

}  // namespace

TEST_CASE("runs match the free neighbors after any sequence of frees and claims", "[parts]") {
  for (const std::size_t count : {std::size_t{8}, std::size_t{40}, 3 * Runs::kMost}) {
    std::mt19937_64 random{seed()};
    Row row{count};
    for (int step = 0; step < 2000; ++step) {
      row.flip(random() % count);
      if (step % 10 == 0) row.check();
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (!row.free(i)) row.flip(i);
    }
    row.check();
    for (std::size_t i = 0; i < count; ++i) row.flip((i * 7 + 3) % count);
    row.check();
  }
}

TEST_CASE("a visit meets only runs of the requested size until the visitor stops it", "[parts]") {
  Row row{64};
  for (std::size_t i = 0; i < 64; ++i) {
    if (i % 4 != 3) row.flip(i);
  }
  std::size_t visited = 0;
  row.runs.visit(false, 4096, [&](const Run& run) {
    CHECK(run.bytes >= 4096);
    return ++visited < 3;
  });
  CHECK(visited == 3);
  row.runs.visit(false, std::size_t{1} << 40, [&](const Run&) {
    ++visited;
    return true;
  });
  CHECK(visited == 3);
}

TEST_CASE("a visit meets few of many runs that are a little too small", "[parts]") {
  const std::size_t n = GENERATE(1'000, 100'000);
  constexpr std::size_t kRun = std::size_t{1} << 20;
  Segment segment;
  Runs runs;
  std::deque<Block> blocks(3 * n + 3);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Block& block = blocks[i];
    const bool last = i + 3 >= blocks.size();
    block.segment = &segment;
    block.bytes = last ? kRun : kRun / 2;
    block.state = BlockState::live;
    if (i > 0) block.previous = &blocks[i - 1];
    if (i + 1 < blocks.size()) block.next = &blocks[i + 1];
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 3 == 2) continue;
    blocks[i].state = BlockState::free;
    runs.freed(&blocks[i]);
  }
  std::size_t most = 0;  // the largest `at_least` of a run
  runs.visit(false, 1, [&](const Run& run) {
    most = std::max(most, run.at_least);
    return run.at_least == run.bytes / 2;
  });
  CHECK(most == kRun);
  // The first two sizes are in the bin of the many runs, which are too small for them. The last two
  // are in larger bins.
  for (const std::size_t bytes : {kRun + 1, kRun + (kRun >> 6), kRun + (kRun >> 5), 2 * kRun}) {
    std::vector<std::size_t> seen;
    const std::uint64_t taken = steps([&] {
      runs.visit(false, bytes, [&](const Run& run) {
        seen.push_back(run.bytes);
        return true;
      });
    });
    CHECK(seen == std::vector{2 * kRun});
    CHECK(taken <= Runs::kMostTooSmall + 1);
  }
  std::size_t first = 0;
  runs.visit_largest(false, [&](const Run& run) {
    first = run.bytes;
    return false;
  });
  CHECK(first == 2 * kRun);
}

}  // namespace millrace::test
