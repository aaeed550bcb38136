// Compares the index of free blocks by size with a sorted set, and bounds the steps of a search.
#include "memory/size_index.hpp"

#include <deque>
#include <random>
#include <set>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

using Index = SizeIndex<&WhileFree::by_size>;

struct FitsBefore {
  bool operator()(const Block* a, const Block* b) const { return fits_before(a, b); }
};
using IndexModel = std::set<Block*, FitsBefore>;

/// Blocks of one segment. Many of them have equal sizes.
class Blocks {
 public:
  explicit Blocks(std::uint64_t seed) : random_(seed) {}

  Block* make(std::size_t most) {
    Block& block = blocks_.emplace_back();
    block.segment = &segment_;
    block.address = base_ + 512 * random_() % (std::size_t{1} << 40);
    block.bytes = size(most);
    return &block;
  }
  std::size_t size(std::size_t most) {
    const std::size_t limit = std::size_t{1} << random_() % (std::bit_width(most) + 1);
    return 512 * (1 + random_() % std::max<std::size_t>(1, std::min(limit, most)));
  }
  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
  Segment segment_;
  std::byte* base_ = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);  // never touched
  std::deque<Block> blocks_;
};

Block* first_of(const IndexModel& model, std::size_t bytes) {
  for (Block* const block : model) {
    if (block->bytes >= bytes) return block;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("the index of sizes agrees with a sorted set", "[parts]") {
  for (std::uint64_t round = 0; round < 20; ++round) {
    Blocks blocks{seed() * 100 + round};
    const std::size_t most = round % 2 == 0 ? 8 : std::size_t{1} << 20;
    Index index;
    IndexModel model;
    std::vector<Block*> in;
    for (int step = 0; step < 400; ++step) {
      if (in.empty() || blocks.random()() % 5 < 3) {
        Block* const block = blocks.make(most);
        index.insert(block);
        model.insert(block);
        in.push_back(block);
      } else {
        std::swap(in[blocks.random()() % in.size()], in.back());
        index.erase(in.back());
        model.erase(in.back());
        in.pop_back();
      }
      const std::size_t wanted = blocks.size(most);
      REQUIRE(index.first(wanted) == first_of(model, wanted));
      REQUIRE(index.last() == (model.empty() ? nullptr : *model.rbegin()));
      REQUIRE(index.size() == model.size());
    }
    std::size_t bytes = 0;
    Block* at = index.first(1);
    for (Block* const block : model) {
      REQUIRE(at == block);
      REQUIRE(index.contains(block));
      bytes += block->bytes;
      at = index.after(at);
    }
    CHECK(at == nullptr);
    CHECK(index.bytes() == bytes);
    CHECK(index.empty() == model.empty());
  }
}

}  // namespace millrace::test
