// With the torch preset the allocator holds the block that each stream freed last. That must not
// change any result.

#include <map>
#include <memory>
#include <random>
#include <vector>

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

/// A block that the allocator gave out, and the bytes reserved then (0 if not queried).
struct Seen {
  std::size_t block;  // numbers by first appearance, as addresses may vary
  std::size_t reserved;
  friend bool operator==(const Seen&, const Seen&) = default;
};

struct TorchBench : Bench {
  explicit TorchBench(Policy policy = Policy::torch(), BenchData data = BenchData::real)
      : Bench(std::size_t{1} << 30, {}, data), allocator(ordered, source, std::move(policy)) {}
  CachingAllocator allocator;
};

/// Runs a random program: pairs of one size, other sizes between them, two streams, recorded uses.
/// @param looks  whether to inspect the allocator after each call, so that no block stays held
std::vector<Seen> run_held(std::uint64_t seed, const Policy& policy, bool looks) {
  TorchBench bench{policy, BenchData::none};
  CachingAllocator& allocator = bench.allocator;
  if (policy.collect_threshold > 0) allocator.set_limit(1 * GiB);
  std::mt19937_64 random{seed};
  const std::uint64_t others = seed % 2 == 0 ? 8 : 2;  // one call in `others` is for copy
  constexpr std::size_t kSizes[] = {512,     3 * KiB, 100 * KiB, 900 * KiB,
                                    2 * MiB, 5 * MiB, 11 * MiB,  30 * MiB};
  std::vector<void*> live;
  std::vector<Seen> seen;
  std::map<void*, std::size_t> numbers;
  std::size_t bytes = kSizes[0];
  const auto look = [&] {
    if (looks) allocator.check_invariants();
  };
  for (int step = 0; step < 2000; ++step) {
    const StreamRef stream = random() % others == 0 ? bench.copy.ref() : bench.main.ref();
    if (random() % 3 == 0) bytes = kSizes[random() % std::size(kSizes)];
    if (live.size() < 3 || (random() % 2 == 0 && live.size() < 12)) {
      live.push_back(allocator.allocate(bytes, stream));
      look();
      const bool asks = step % 50 == 0;
      const std::size_t block = numbers.try_emplace(live.back(), numbers.size()).first->second;
      seen.push_back({block, asks ? allocator.statistics().bytes.reserved.current : 0});
    } else {
      if (random() % 2 == 0) std::swap(live[random() % live.size()], live.back());
      if (random() % 10 == 0) allocator.record_use(live.back(), bench.copy);
      allocator.deallocate(live.back());
      look();
      live.pop_back();
    }
  }
  for (void* const address : live) allocator.deallocate(address);
  allocator.check_invariants();
  return seen;
}

}  // namespace

TEST_CASE("PyTorch's way: inspection between calls does not change which blocks are given out") {
  Policy expandable = Policy::torch(), limited = Policy::torch(), collecting = Policy::torch();
  expandable.growable_ranges = true;
  limited.max_split = 20 * MiB;
  collecting.collect_threshold = 0.25;
  for (const Policy& policy : {Policy::torch(), expandable, limited, collecting}) {
    for (std::uint64_t round = 0; round < 20; ++round) {
      CAPTURE(seed(), round, policy.growable_ranges, policy.max_split, policy.collect_threshold);
      REQUIRE(run_held(seed() + round, policy, true) == run_held(seed() + round, policy, false));
    }
  }
}

TEST_CASE("PyTorch's way: each stream gets the block that it freed last, in any order") {
  TorchBench bench;
  CachingAllocator& allocator = bench.allocator;
  void* const on_main = allocator.allocate(4 * KiB, bench.main);
  void* const on_copy = allocator.allocate(4 * KiB, bench.copy);
  allocator.deallocate(on_main);
  allocator.deallocate(on_copy);
  for (int i = 0; i < 3; ++i) {
    CHECK(allocator.allocate(4 * KiB, bench.main) == on_main);
    CHECK(allocator.allocate(4 * KiB, bench.copy) == on_copy);
    allocator.deallocate(on_main);
    allocator.deallocate(on_copy);
  }
  CHECK(allocator.statistics().bytes.allocated.current == 0);
  allocator.check_invariants();
}

TEST_CASE("PyTorch's way: a range grows after a block that another stream has freed last") {
  Policy policy = Policy::torch();
  policy.growable_ranges = true;
  TorchBench bench{policy};
  CachingAllocator& allocator = bench.allocator;
  // 16 streams have a range each, which is the maximum. The last stream's memory is in the first
  // stream's range.
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 17; ++i) streams.push_back(std::make_unique<Stream>(bench.ordered));
  for (int i = 0; i < 16; ++i) static_cast<void>(allocator.allocate(20 * MiB, *streams[i]));
  void* const left = allocator.allocate(10 * MiB, *streams[16]);
  void* const right = allocator.allocate(10 * MiB, *streams[16]);
  REQUIRE(static_cast<std::byte*>(left) + 10 * MiB == right);
  allocator.deallocate(right);
  allocator.deallocate(left);  // now held; `right` is free
  streams[16]->mark();
  bench.ordered.synchronize();  // the first stream may use the memory before its gap
  static_cast<void>(allocator.allocate(20 * MiB, *streams[0]));
  // The memory that the last stream freed is large enough, but only that stream may use it. So the
  // whole request is served with new memory.
  CHECK(allocator.statistics().bytes.reserved.current == 18 * 20 * MiB);
  allocator.check_invariants();
}

TEST_CASE("PyTorch's way: garbage collection takes blocks that were free before the poll first") {
  Policy policy = Policy::torch();
  policy.collect_threshold = 0.25;
  TorchBench bench{policy};
  CachingAllocator& allocator = bench.allocator;
  allocator.set_limit(256 * MiB);
  void* const used = allocator.allocate(30 * MiB, bench.main);
  void* const plain = allocator.allocate(30 * MiB, bench.main);
  allocator.record_use(used, bench.copy);
  allocator.deallocate(used);   // free once a poll finds copy's use complete
  allocator.deallocate(plain);  // free now, and held
  bench.ordered.synchronize();
  static_cast<void>(allocator.allocate(20 * MiB, bench.copy));  // exceeds the threshold
  CHECK(allocator.statistics().bytes.reserved.current == 50 * MiB);
  CHECK(allocator.allocate(30 * MiB, bench.main) == used);
}

TEST_CASE("PyTorch's way: a better fit than the block that was freed last serves the request") {
  TorchBench bench;
  CachingAllocator& allocator = bench.allocator;
  void* const first = allocator.allocate(4 * KiB, bench.main);
  void* const wall = allocator.allocate(4 * KiB, bench.main);
  void* const last = allocator.allocate(4 * KiB, bench.main);  // the segment's rest follows
  allocator.deallocate(first);
  allocator.deallocate(last);
  CHECK(allocator.allocate(4 * KiB, bench.main) == first);
  allocator.deallocate(wall);
}

TEST_CASE("PyTorch's way: the block that was freed last is not live") {
  TorchBench bench;
  CachingAllocator& allocator = bench.allocator;
  void* const address = allocator.allocate(4 * KiB, bench.main);
  allocator.deallocate(address);
  CHECK_THROWS_AS(allocator.deallocate(address), std::invalid_argument);
  CHECK_THROWS_AS(allocator.record_use(address, bench.copy), std::invalid_argument);
  CHECK(allocator.block_size(address) == 0);
  CHECK(allocator.statistics().bytes.allocated.current == 0);
  CHECK(allocator.trim(0) > 0);
}

TEST_CASE("PyTorch's way: trim gives back a block whose uses were complete when it was freed") {
  TorchBench bench;
  CachingAllocator& allocator = bench.allocator;
  void* const address = allocator.allocate(20 * MiB, bench.main);
  const bool by_marker = GENERATE(true, false);
  CAPTURE(by_marker);
  if (by_marker) {  // of another stream
    const Point marker = bench.ordered.mark(bench.copy);
    bench.ordered.synchronize();
    allocator.deallocate(address, marker);
  } else {  // after a use by a stream that is gone
    {
      const Stream side{bench.ordered, {.name = "side"}};
      allocator.record_use(address, side);
    }
    bench.ordered.synchronize();
    allocator.deallocate(address);
  }
  CHECK(allocator.trim(0) == 20 * MiB);
  CHECK(allocator.statistics().bytes.reserved.current == 0);
}

}  // namespace millrace::test
