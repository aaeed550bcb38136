// Unlisted free blocks: not checked for other streams until another stream searches for a block.

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "memory/lane.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kPiece = 8192;

/// Frees every second one of `2 * count` pieces on main, in a random order.
/// @return the freed pieces
std::set<void*> free_every_other(CachingAllocator& allocator, const Bench& bench,
                                 std::size_t count) {
  std::vector<void*> pieces;
  for (std::size_t i = 0; i < 2 * count; ++i) {
    pieces.push_back(allocator.allocate(kPiece, bench.main));
  }
  std::vector<void*> freed;
  for (std::size_t i = 0; i < pieces.size(); i += 2) freed.push_back(pieces[i]);
  std::shuffle(freed.begin(), freed.end(), std::mt19937_64{seed()});
  for (void* const piece : freed) allocator.deallocate(piece);
  return {freed.begin(), freed.end()};
}

}  // namespace

TEST_CASE("a stream finds each block of another stream that it is ordered after") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  constexpr std::size_t kCount = 3 * Unlisted::kMost;
  std::set<void*> freed = free_every_other(allocator, bench, kCount);
  allocator.check_invariants();
  const std::size_t reserved = allocator.statistics().bytes.reserved.current;
  bench.copy.wait_stream(bench.main);
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(freed.erase(allocator.allocate(kPiece, bench.copy)) == 1);
  }
  CHECK(allocator.statistics().bytes.reserved.current == reserved);
  allocator.check_invariants();
}

TEST_CASE("a stream gets no block of another stream that it is not ordered after") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  const std::set<void*> freed = free_every_other(allocator, bench, 2 * Unlisted::kMost);
  for (int i = 0; i < 100; ++i) {
    CHECK_FALSE(freed.contains(allocator.allocate(kPiece, bench.copy)));
  }
  allocator.check_invariants();
}

TEST_CASE("unlisted blocks come out oldest first, whichever blocks were erased before", "[parts]") {
  std::mt19937_64 random{seed()};
  std::vector<Block> blocks(200);
  Unlisted unlisted;
  std::vector<Block*> model, out;
  for (Block& block : blocks) out.push_back(&block);
  for (int step = 0; step < 5000; ++step) {
    if (random() % 2 == 0 && !out.empty()) {
      std::swap(out[random() % out.size()], out.back());
      unlisted.push(out.back());
      model.push_back(out.back());
      out.pop_back();
    } else if (!model.empty()) {
      const auto at = model.begin() + static_cast<std::ptrdiff_t>(random() % model.size());
      unlisted.erase(*at);
      out.push_back(*at);
      model.erase(at);
    }
    REQUIRE(unlisted.size() == model.size());
    REQUIRE(unlisted.oldest() == (model.empty() ? nullptr : model.front()));
  }
}

}  // namespace millrace::test
