// Policy::lean_above: rules that spare host time do not make the reserved bytes creep up.

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using millrace::test::MiB;

namespace {

// Pages have 2 MiB, so an excess of 16 MiB is always allowed.
struct LeanBench : test::Bench {
  explicit LeanBench(const Policy& policy, std::size_t memory = std::size_t{2} << 30)
      : Bench(memory, VirtualMachine::Options{}, test::BenchData::none),
        allocator(ordered, source, policy) {}
  explicit LeanBench(double lean_above) : LeanBench(policy(lean_above)) {}

  static Policy policy(double lean_above) {
    Policy policy = Policy::millrace();
    policy.lean_above = lean_above;
    return policy;
  }
  [[nodiscard]] MemoryStatistics statistics() {
    allocator.check_invariants();
    return allocator.statistics();
  }
  [[nodiscard]] std::size_t reserved() { return statistics().bytes.reserved.current; }
  /// Allocates adjacent blocks of 30 MiB on `stream`, then frees every second one and waits for it.
  void comb(const Stream& stream, std::size_t blocks) {
    std::vector<void*> freed;
    for (std::size_t i = 0; i < blocks; ++i) {
      void* const address = allocator.allocate(30 * MiB, stream);
      if (i % 2 != 0) freed.push_back(address);
    }
    for (void* const address : freed) allocator.deallocate(address);
    ordered.mark(stream);
    ordered.synchronize();
  }
  /// Requests memory in larger and larger pieces, for which main's free pages have to be moved.
  void allocate_growing_pieces() {
    for (const std::size_t bytes : {100, 130, 160, 190, 220, 250, 280, 310}) {
      allocator.deallocate(allocator.allocate(bytes * MiB, main));
    }
  }

  CachingAllocator allocator;
};

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("turns to grow end at the allowed excess over the highest requested bytes") {
  const auto [lean_above, most] = GENERATE(table<double, std::size_t>({
      {0, 16 * MiB},          // 8 pages
      {1.0 / 42, 16 * MiB},   // 17.1 MiB, in whole pages
      {1.0 / 30, 24 * MiB},   // a thirtieth of 720 MiB
      {kNoLimit, 2048 * MiB}  //
  }));
  CAPTURE(lean_above);
  LeanBench bench{lean_above};
  bench.comb(bench.main, 24);  // 360 of 720 MiB are free, in pieces
  bench.allocate_growing_pieces();
  const MemoryGauges bytes = bench.statistics().bytes;
  REQUIRE(bytes.requested.peak == 720 * MiB);
  CHECK(bytes.reserved.current > 720 * MiB);
  CHECK(bytes.reserved.current <= 720 * MiB + most);
  CHECK((bytes.reserved.current > 750 * MiB) == (lean_above == kNoLimit));
}

TEST_CASE("streams keep pages of their last bursts up to one and a half times the excess") {
  // 240 MiB were requested at most, and 340 are reserved: an excess of 5/12.
  const auto [lean_above, taken] =
      GENERATE(table<double, bool>({{0, true}, {0.27, true}, {0.29, false}, {kNoLimit, false}}));
  CAPTURE(lean_above);
  LeanBench bench{lean_above};
  bench.comb(bench.copy, 8);
  for (int burst = 0; burst < 2; ++burst) {
    bench.allocator.deallocate(bench.allocator.allocate(2 * MiB, bench.copy));
    bench.ordered.mark(bench.copy);
  }
  bench.ordered.synchronize();
  static_cast<void>(bench.allocator.allocate(100 * MiB, bench.main));
  REQUIRE(bench.statistics().bytes.requested.peak == 240 * MiB);
  REQUIRE(bench.reserved() == 340 * MiB);
  static_cast<void>(bench.allocator.allocate(100 * MiB, bench.main));
  CHECK(bench.reserved() == (taken ? 340 : 440) * MiB);
  CHECK(bench.statistics().counts.bytes_moved == (taken ? 100 : 0) * MiB);
}

// The first steps are those of the test above: 240 MiB were requested at most, and 340 are
// reserved.
TEST_CASE("beyond the excess, remainders with pages are split off while most memory is needed") {
  struct Row {
    double lean_above;
    std::size_t request, block;
  };
  // An excess of 16 MiB is always allowed, so a request is near the peak above 208 MiB. 120 MiB are
  // live beside it.
  const Row row = GENERATE(Row{0, 90 * MiB, 90 * MiB},             // 10 MiB are split off
                           Row{0, 88 * MiB, 100 * MiB},            // 208 MiB is not near the peak
                           Row{0, 98 * MiB + MiB / 2, 100 * MiB},  // a remainder without a page
                           Row{0.41, 90 * MiB, 90 * MiB},          // 340 MiB is beyond the excess
                           Row{0.43, 90 * MiB, 100 * MiB},         // below it
                           Row{kNoLimit, 90 * MiB, 100 * MiB}      //
  );
  CAPTURE(row.lean_above, row.request);
  LeanBench bench{row.lean_above};
  bench.comb(bench.copy, 8);
  for (int burst = 0; burst < 2; ++burst) {
    bench.allocator.deallocate(bench.allocator.allocate(2 * MiB, bench.copy));
    bench.ordered.mark(bench.copy);
  }
  bench.ordered.synchronize();
  void* const address = bench.allocator.allocate(100 * MiB, bench.main);
  bench.allocator.deallocate(address);
  REQUIRE(bench.reserved() == 340 * MiB);
  REQUIRE(bench.statistics().bytes.requested.peak == 240 * MiB);
  const std::size_t before = bench.statistics().bytes.allocated.current;
  static_cast<void>(bench.allocator.allocate(row.request, bench.main));
  CHECK(bench.statistics().bytes.allocated.current - before == row.block);
}

// The device's pages have 8 MiB. Without the limit the reserved bytes reach 1.22 and 1.27 times the
// requested ones here, with it 1.17 and 1.16. Without ranges they reach 1.25 and 1.29, with the
// limit 1.19 and 1.26.
TEST_CASE("random sizes on four streams do not make the reserved bytes creep up") {
  const std::uint64_t seed = GENERATE(1, 2);
  const bool ranges = GENERATE(true, false);
  CAPTURE(seed, ranges);
  Policy policy = Policy::millrace();
  policy.growable_ranges = ranges;
  const std::size_t kLive = ranges ? 200 : 1'000;
  constexpr int kSteps = 600'000;
  LeanBench bench{policy, std::size_t{ranges ? 8U : 16U} << 30};
  const Stream third{bench.ordered, {.name = "third"}}, fourth{bench.ordered, {.name = "fourth"}};
  const std::vector<StreamRef> streams{bench.main, bench.copy, third, fourth};
  std::mt19937_64 random{seed};
  const auto draw_bytes = [&] {  // 256 B to 64 MiB; the same with each standard library
    return static_cast<std::size_t>(
        std::exp2(8 + 18 * 0x1p-53 * static_cast<double>(random() >> 11)));
  };
  std::vector<void*> held(kLive, nullptr);
  for (int step = 0; step < kSteps; ++step) {
    void*& block = held[random() % kLive];
    bench.allocator.deallocate(block);
    const std::size_t bytes = draw_bytes();
    block = bench.allocator.allocate(bytes, streams[random() % streams.size()]);
  }
  const MemoryGauges bytes = bench.statistics().bytes;
  const double ratio =
      static_cast<double>(bytes.reserved.peak) / static_cast<double>(bytes.requested.peak);
  CHECK(ratio <= (ranges ? 1.20 : 1.27));
}
