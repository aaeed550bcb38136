// Policy::lean_above: rules that spare host time do not make the reserved bytes creep up.

#include <cmath>
#include <random>
#include <vector>

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using millrace::test::MiB;

namespace {

struct LeanBench : test::Bench {
  explicit LeanBench(double lean_above, std::size_t memory = std::size_t{2} << 30)
      : Bench(memory, VirtualMachine::Options{}, test::BenchData::none),
        allocator(ordered, source, policy(lean_above)) {}

  static Policy policy(double lean_above) {
    Policy policy = Policy::millrace();
    policy.lean_above = lean_above;
    return policy;
  }
  [[nodiscard]] MemoryStatistics statistics() {
    allocator.check_invariants();
    return allocator.statistics();
  }
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

  CachingAllocator allocator;
};

constexpr double kNever = 1e9;

}  // namespace

TEST_CASE("with too much reserved, no request takes new memory that pages can be moved for") {
  const bool lean = GENERATE(false, true);
  CAPTURE(lean);
  LeanBench bench{lean ? 0 : kNever};
  bench.comb(bench.main, 24);  // 360 of 720 MiB are free, in pieces
  for (const std::size_t bytes : {100, 130, 160, 190, 220, 250}) {
    bench.allocator.deallocate(bench.allocator.allocate(bytes * MiB, bench.main));
  }
  const std::size_t reserved = bench.statistics().bytes.reserved.current;
  CHECK((reserved == 720 * MiB) == lean);
}

TEST_CASE("growth instead of moves ends at the allowed excess") {
  constexpr double kExcess = 1.0 / 128;
  LeanBench bench{kExcess};
  bench.comb(bench.main, 24);
  for (const std::size_t bytes : {100, 130, 160, 190, 220, 250}) {
    bench.allocator.deallocate(bench.allocator.allocate(bytes * MiB, bench.main));
  }
  const MemoryGauges bytes = bench.statistics().bytes;
  REQUIRE(bytes.requested.peak == 720 * MiB);
  CHECK(bytes.reserved.current > 720 * MiB);
  CHECK(bytes.reserved.current <= 726 * MiB);  // 5.6 MiB, in whole pages
}

TEST_CASE(
    "with too much reserved, streams do not keep pages that they needed in their last bursts") {
  const bool lean = GENERATE(false, true);
  CAPTURE(lean);
  LeanBench bench{lean ? 0 : kNever};
  bench.comb(bench.copy, 8);
  for (int burst = 0; burst < 2; ++burst) {
    bench.allocator.deallocate(bench.allocator.allocate(2 * MiB, bench.copy));
    bench.ordered.mark(bench.copy);
  }
  bench.ordered.synchronize();
  static_cast<void>(bench.allocator.allocate(100 * MiB, bench.main));
  const MemoryStatistics now = bench.statistics();
  CHECK(now.bytes.reserved.current == (lean ? 240 : 340) * MiB);
  CHECK(now.counts.bytes_moved == (lean ? 100 : 0) * MiB);
}

TEST_CASE("random sizes on four streams do not make the reserved bytes creep up") {
  const std::uint64_t seed = GENERATE(1, 2);
  CAPTURE(seed);
  constexpr std::size_t kLive = 200;
  constexpr int kSteps = 300'000;
  LeanBench bench{Policy::millrace().lean_above, std::size_t{8} << 30};
  const Stream third{bench.ordered, {.name = "third"}}, fourth{bench.ordered, {.name = "fourth"}};
  const std::vector<StreamRef> streams{bench.main, bench.copy, third, fourth};
  std::mt19937_64 random{seed};
  std::uniform_real_distribution<double> exponent{8, 26};  // 256 B to 64 MiB
  std::vector<void*> held(kLive, nullptr);
  for (int step = 0; step < kSteps; ++step) {
    void*& block = held[random() % kLive];
    bench.allocator.deallocate(block);
    block = bench.allocator.allocate(static_cast<std::size_t>(std::exp2(exponent(random))),
                                     streams[random() % streams.size()]);
  }
  const MemoryGauges bytes = bench.statistics().bytes;
  const auto reserved = static_cast<double>(bytes.reserved.peak);
  CHECK(reserved <=
        1.22 * static_cast<double>(bytes.requested.peak));  // without the limit 1.29 and 1.41
}
