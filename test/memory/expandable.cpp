// PyTorch's expandable segments: which pages a request maps, which free block it takes, and which
// memory is given back. test/observe/replay.cpp compares with recordings of PyTorch itself.

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

struct ExpandableBench : Bench {
  explicit ExpandableBench(MemoryLimits limits = {})
      : Bench(2 * GiB), allocator(ordered, source, Policy::torch_expandable(), limits) {}

  [[nodiscard]] std::size_t reserved() {
    allocator.check_invariants();
    return allocator.statistics().bytes.reserved.current;
  }

  CachingAllocator allocator;
};

std::byte* bytes_at(void* address) { return static_cast<std::byte*>(address); }

}  // namespace

TEST_CASE("a request maps the whole pages that it lacks after the last free block") {
  ExpandableBench bench;
  void* const first = bench.allocator.allocate(30 * MiB, bench.main);
  CHECK(bench.reserved() == 40 * MiB);  // pages of 20 MiB
  void* const second = bench.allocator.allocate(15 * MiB, bench.main);
  CHECK(second == bytes_at(first) + 30 * MiB);  // 10 MiB after `first` were free
  CHECK(bench.reserved() == 60 * MiB);
  void* const small = bench.allocator.allocate(MiB, bench.main);
  CHECK(bench.reserved() == 62 * MiB);  // pages of 2 MiB in another range
  CHECK(bench.allocator.allocate(MiB, bench.main) == bytes_at(small) + MiB);
  static_cast<void>(bench.allocator.allocate(30 * MiB, bench.copy));  // in copy's own range
  CHECK(bench.reserved() == 102 * MiB);
}

TEST_CASE("the remainder of a block of an expandable segment is split off however small") {
  ExpandableBench bench;
  void* const first = bench.allocator.allocate(20 * MiB, bench.main);
  static_cast<void>(bench.allocator.allocate(20 * MiB, bench.main));
  bench.allocator.deallocate(first);
  REQUIRE(bench.allocator.allocate(20 * MiB - 512, bench.main) == first);
  CHECK(bench.allocator.block_size(first) == 20 * MiB - 512);
}

TEST_CASE("among the blocks that fit, a request takes the one with the least room to grow") {
  ExpandableBench bench;
  void* const first = bench.allocator.allocate(36 * MiB, bench.main);
  static_cast<void>(bench.allocator.allocate(10 * MiB, bench.main));
  bench.allocator.deallocate(bench.allocator.allocate(34 * MiB, bench.main));
  bench.allocator.deallocate(first);
  // Free: 36 MiB before a block in use, and 34 MiB at the end of the range. The second block is
  // the better fit, but it can grow.
  CHECK(bench.reserved() == 80 * MiB);
  CHECK(bench.allocator.allocate(33 * MiB, bench.main) == first);
}

TEST_CASE("whole free pages are unmapped, and mapped again at the lowest addresses") {
  ExpandableBench bench;
  void* const first = bench.allocator.allocate(50 * MiB, bench.main);
  void* const second = bench.allocator.allocate(20 * MiB, bench.main);
  REQUIRE(second == bytes_at(first) + 50 * MiB);
  bench.allocator.deallocate(first);
  REQUIRE(bench.reserved() == 80 * MiB);
  CHECK(bench.allocator.trim() == 40 * MiB);  // keeps the page where the second block begins
  CHECK(bench.reserved() == 40 * MiB);
  // The 10 MiB before the second block are free and too small for the request. Together with the
  // unmapped addresses before them they are large enough.
  CHECK(bench.allocator.allocate(45 * MiB, bench.main) == first);
  CHECK(bench.reserved() == 80 * MiB);
  bench.allocator.deallocate(first);
  bench.allocator.deallocate(second);
  CHECK(bench.allocator.trim() == 80 * MiB);
  CHECK(bench.reserved() == 0);
}

TEST_CASE("free blocks and addresses without memory serve one request together") {
  ExpandableBench bench;
  std::array<void*, 5> pages{};
  for (void*& page : pages) page = bench.allocator.allocate(20 * MiB, bench.main);
  bench.allocator.deallocate(pages[1]);
  REQUIRE(bench.allocator.trim() == 20 * MiB);
  bench.allocator.deallocate(pages[0]);
  bench.allocator.deallocate(pages[2]);
  // A free page, an unmapped page and a free page: 60 MiB of adjacent addresses.
  CHECK(bench.allocator.allocate(55 * MiB, bench.main) == pages[0]);
  CHECK(bench.reserved() == 100 * MiB);
}

TEST_CASE("a request that failed at the limit is served after a free") {
  ExpandableBench bench{{.limit = 100 * MiB}};
  void* const first = bench.allocator.allocate(20 * MiB, bench.main);
  CHECK_THROWS_AS(bench.allocator.allocate(90 * MiB, bench.main), out_of_memory);
  CHECK(bench.reserved() <= 100 * MiB);
  bench.allocator.deallocate(first);
  CHECK(bench.allocator.allocate(90 * MiB, bench.main) == first);
  CHECK(bench.reserved() == 100 * MiB);
}

TEST_CASE("only pages of an expandable segment that lie in free blocks are released") {
  ExpandableBench bench;
  std::array<void*, 3> pages{};
  for (void*& page : pages) page = bench.allocator.allocate(20 * MiB, bench.main);
  bench.allocator.deallocate(pages[0]);
  bench.allocator.deallocate(pages[2]);
  const std::vector<AddressRange> all{
      {pages[0], 20 * MiB}, {pages[1], 20 * MiB}, {pages[2], 20 * MiB}};
  CHECK(bench.allocator.release_pages(all) == 40 * MiB);
  CHECK(bench.reserved() == 20 * MiB);
  CHECK(bench.allocator.release_pages(all) == 0);
  CHECK(bench.allocator.allocate(20 * MiB, bench.main) == pages[0]);
}

TEST_CASE("restored ranges continue as the original ranges") {
  ExpandableBench original;
  std::array<void*, 4> pages{};
  for (void*& page : pages) page = original.allocator.allocate(20 * MiB, original.main);
  original.allocator.deallocate(pages[1]);
  REQUIRE(original.allocator.trim() == 20 * MiB);
  original.allocator.deallocate(pages[2]);
  std::vector<CachingAllocator::SegmentLayout> layout = original.allocator.layout();
  REQUIRE(layout.size() == 2);

  ExpandableBench bench;
  const AddressRange range = bench.source.reserve();
  const auto moved = [&](void* address) {
    return bytes_at(range.base) + (bytes_at(address) - bytes_at(pages[0]));
  };
  for (CachingAllocator::SegmentLayout& segment : layout) {
    segment.base = moved(segment.base);
    segment.stream = bench.main;
    bench.source.map(segment.base, segment.bytes);
  }
  const std::vector<CachingAllocator::RangeLayout> ranges{{.base = range.base,
                                                           .bytes = range.bytes,
                                                           .page = 20 * MiB,
                                                           .small = false,
                                                           .stream = bench.main}};
  SECTION("requests map and take the same memory as in the original") {
    bench.allocator.restore(layout, ranges);
    CHECK(bench.reserved() == 60 * MiB);
    void* const expected = original.allocator.allocate(35 * MiB, original.main);
    CHECK(bench.allocator.allocate(35 * MiB, bench.main) == moved(expected));
    CHECK(bench.reserved() == 80 * MiB);
  }
  SECTION("a range without pages, or two at one address, are refused") {
    for (CachingAllocator::SegmentLayout& segment : layout) {
      bench.source.unmap(segment.base, segment.bytes);
    }
    std::vector<CachingAllocator::RangeLayout> twice{ranges[0], ranges[0]};
    CHECK_THROWS_AS(bench.allocator.restore({}, twice), std::invalid_argument);
    twice.pop_back();
    twice[0].page = 0;
    CHECK_THROWS_AS(bench.allocator.restore({}, twice), std::invalid_argument);
    CHECK(bench.reserved() == 0);
    bench.source.give_back(range);
  }
  SECTION("parts of pages are refused, and nothing is restored") {
    layout[1].base = bytes_at(layout[1].base) - 2 * MiB;
    CHECK_THROWS_AS(bench.allocator.restore(layout, ranges), std::invalid_argument);
    CHECK(bench.reserved() == 0);
    for (CachingAllocator::SegmentLayout& segment : layout) {
      if (segment.base != range.base) segment.base = bytes_at(segment.base) + 2 * MiB;
      bench.source.unmap(segment.base, segment.bytes);
    }
    bench.source.give_back(range);
  }
}

TEST_CASE("expandable segments keep their invariants in a random program") {
  const std::uint64_t seed = test::seed();
  std::mt19937_64 random{seed};
  ExpandableBench bench{{.limit = 900 * MiB}};
  std::vector<void*> live;
  std::size_t refused = 0;
  for (int step = 0; step < 3000; ++step) {
    const StreamRef stream = random() % 4 == 0 ? bench.copy.ref() : bench.main.ref();
    const std::uint64_t what = random() % 100;
    if (what < 50) {
      const auto bytes = static_cast<std::size_t>(1) << (9 + random() % 18);
      try {
        live.push_back(bench.allocator.allocate(bytes + random() % bytes, stream));
      } catch (const out_of_memory&) {
        ++refused;
      }
    } else if (what < 98 && !live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      if (random() % 8 == 0) bench.allocator.record_use(live.back(), bench.copy);
      bench.allocator.deallocate(live.back());
      live.pop_back();
    } else if (what == 98) {
      bench.allocator.trim();
    }
    if (step % 16 == 0) CHECK(bench.reserved() <= 900 * MiB);
  }
  CHECK(refused < 1500);
  for (void* const address : live) bench.allocator.deallocate(address);
  bench.device.synchronize();
  bench.allocator.trim();
  CHECK(bench.reserved() == 0);
}
