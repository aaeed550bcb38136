#include "memory/quick_bins.hpp"

#include <deque>

#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kRoomy = QuickBins::kRoomy;

class Filled {
 public:
  QuickBins bins;

  bool keep(std::size_t bytes, std::size_t highest_live) {
    if (!bins.accepts(bytes) || !bins.affords(bytes, highest_live)) return false;
    blocks_.emplace_back().bytes = bytes;
    bins.push(&blocks_.back(), bytes);
    return true;
  }

 private:
  std::deque<Block> blocks_;
};

std::size_t count(const Block* block) {
  std::size_t blocks = 0;
  for (; block != nullptr; block = block->next_quick) ++blocks;
  return blocks;
}

}  // namespace

TEST_CASE("small bins keep up to a sixteenth of the highest live bytes", "[parts]") {
  Filled filled;
  std::size_t kept = 0;
  for (std::size_t bytes = 512 * KiB; bytes >= 512; bytes /= 2) {
    while (filled.keep(bytes, kRoomy)) kept += bytes;
  }
  CHECK(kept <= kRoomy / 16);
  CHECK(kept > kRoomy / 32);
}

TEST_CASE("a size finds room in the bins once the blocks that hinder it are taken out", "[parts]") {
  for (const std::size_t highest_live : {std::size_t{0}, kRoomy, 8 * kRoomy}) {
    for (std::size_t bytes = 512; bytes <= 1024 * KiB; bytes += bytes / 3 / 512 * 512 + 512) {
      CAPTURE(highest_live, bytes);
      Filled filled;
      for (std::size_t other = 512; other <= 1024 * KiB; other += other / 7 / 512 * 512 + 512) {
        while (filled.keep(other, highest_live)) {
        }
      }
      (void)filled.bins.take_hindering(bytes, highest_live);
      REQUIRE(filled.keep(bytes, highest_live));
    }
  }
}

TEST_CASE("a full class gives up its own blocks, and other classes keep theirs", "[parts]") {
  Filled filled;
  for (int i = 0; i < 4; ++i) REQUIRE(filled.keep(900 * KiB, 64 * kRoomy));
  REQUIRE(filled.keep(4 * KiB, 64 * kRoomy));
  CHECK(filled.bins.pop(1000 * KiB, 64 * kRoomy) == nullptr);
  CHECK(count(filled.bins.take_hindering(1000 * KiB, 64 * kRoomy)) == 4);
  CHECK(filled.bins.pop(4 * KiB, 64 * kRoomy) != nullptr);
}

TEST_CASE("with little live memory a request gets a block of its exact size only", "[parts]") {
  Filled filled;
  REQUIRE(filled.keep(66 * KiB, 0));
  CHECK(filled.bins.pop(64 * KiB, kRoomy - 1) == nullptr);
  CHECK(filled.bins.pop(64 * KiB, kRoomy) != nullptr);
}

}  // namespace millrace::test
