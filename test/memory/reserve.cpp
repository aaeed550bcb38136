#include <algorithm>
#include <array>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "millrace/memory/fixed_pool.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using millrace::test::Bench;
using millrace::test::MiB;

namespace {

std::vector<Policy> reserve_presets() {
  return {Policy::torch(), Policy::millrace(), test::exact_segments(Policy::millrace())};
}

std::size_t reserved(Allocator& allocator) { return allocator.statistics().bytes.reserved.current; }

}  // namespace

TEST_CASE("reserved memory serves its stream's requests without growth") {
  for (const Policy& policy : reserve_presets()) {
    CAPTURE(policy.name);
    Bench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy};
    CHECK(allocator.reserve(100 * MiB, bench.main) >= 100 * MiB);
    const std::size_t before = reserved(allocator);
    CHECK(before == 100 * MiB);
    for (int i = 0; i < 25; ++i) CHECK(allocator.allocate(4 * MiB, bench.main) != nullptr);
    CHECK(reserved(allocator) == before);
    CHECK(allocator.statistics().counts.served_grown == 0);
    (void)allocator.allocate(4 * MiB, bench.main);
    CHECK(reserved(allocator) > before);
    allocator.check_invariants();
  }
}

TEST_CASE("a reserve beyond the limit or the headroom changes nothing") {
  for (const Policy& policy : reserve_presets()) {
    Bench bench{256 * MiB};
    CachingAllocator allocator{bench.ordered, bench.source, policy, {.limit = 64 * MiB}};
    CHECK_THROWS_AS(allocator.reserve(65 * MiB, bench.main), out_of_memory);
    CHECK(reserved(allocator) == 0);
    allocator.set_limit(0);
    allocator.set_headroom(200 * MiB);
    CHECK_THROWS_AS(allocator.reserve(60 * MiB, bench.main), out_of_memory);
    CHECK(reserved(allocator) == 0);
    CHECK(allocator.reserve(50 * MiB, bench.main) >= 50 * MiB);
    CHECK(allocator.reserve(0, bench.main) == 0);
    allocator.check_invariants();
  }
}

TEST_CASE("reserved memory is given back after all other free memory") {
  for (const Policy& policy : reserve_presets()) {
    Bench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy};
    (void)allocator.reserve(40 * MiB, bench.main);
    void* const other = allocator.allocate(60 * MiB, bench.copy);
    allocator.deallocate(other);
    struct Log final : AllocationObserver {
      void segment_released(void* base, std::size_t) override { bases.push_back(base); }
      std::vector<void*> bases;
    } log;
    allocator.observe(&log);
    (void)allocator.trim();
    CHECK(reserved(allocator) == 0);
    REQUIRE(log.bases.size() >= 2);
    CHECK(log.bases.front() == other);
    allocator.observe(nullptr);
    allocator.check_invariants();
  }
}

TEST_CASE("a fixed pool gives out ordered blocks of one size, up to its maximum") {
  Bench bench;
  FixedPool pool{bench.ordered,
                 bench.source,
                 {.block_bytes = 100'000, .blocks_at_once = 20, .most_bytes = 4 * MiB}};
  CHECK(pool.block_bytes() == 100'352);
  std::vector<void*> held;
  while (true) {
    try {
      held.push_back(pool.allocate(bench.main));
    } catch (const out_of_memory&) {
      break;
    }
  }
  CHECK(held.size() >= 40);
  CHECK(held.size() * pool.block_bytes() <= 4 * MiB);
  void* const freed = held.back();
  test::busy(bench, bench.main, freed, pool.block_bytes());
  pool.memory().deallocate(freed);
  CHECK(pool.allocate(bench.copy) == freed);  // copy waits for it: no other block is free
  CHECK(bench.ordered.ledger().ordered(
      {bench.main.id(), bench.ordered.ledger().next(bench.main.id()) - 1}, bench.copy.id()));
  std::array<void*, 2> none{};
  CHECK_THROWS_AS(pool.allocate(none, bench.main), out_of_memory);
  CHECK(none == std::array<void*, 2>{});
  CHECK(pool.memory().statistics().live_blocks == held.size());
  pool.memory().check_invariants();
  CHECK_THROWS_AS((FixedPool{bench.ordered, bench.source, {.block_bytes = 0}}),
                  std::invalid_argument);
}

TEST_CASE("requests that together fit in the reserved memory cause no growth") {
  for (const Policy& policy : reserve_presets()) {
    CAPTURE(policy.name, test::seed());
    std::mt19937_64 random{test::seed()};
    for (int program = 0; program < 20; ++program) {
      Bench bench;
      CachingAllocator allocator{bench.ordered, bench.source, policy};
      const std::size_t got = allocator.reserve((20 + random() % 200) * MiB, bench.main);
      for (int round = 0; round < 4; ++round) {
        std::vector<std::size_t> sizes;
        std::size_t sum = 0;
        while (true) {
          const std::size_t bytes = MiB + 1 + random() % (8 * MiB);
          sum += policy.round(bytes);
          if (sum + 3 * MiB > got) break;  // the rest is always large enough to split off
          sizes.push_back(bytes);
        }
        std::vector<void*> addresses(sizes.size());
        if (round % 2 == 0) {
          allocator.allocate(sizes, addresses, bench.main);
        } else {
          for (std::size_t i = 0; i < sizes.size(); ++i) {
            addresses[i] = allocator.allocate(sizes[i], bench.main);
          }
        }
        std::ranges::shuffle(addresses, random);
        allocator.deallocate(addresses);
      }
      CHECK(reserved(allocator) == got);
      CHECK(allocator.statistics().counts.served_grown == 0);
      allocator.check_invariants();
    }
  }
}

TEST_CASE("a fixed pool refuses only when it is full") {
  constexpr std::size_t kBlock = 64 << 10, kAtOnce = 32, kBlocks = 4 * kAtOnce;
  CAPTURE(test::seed());
  std::mt19937_64 random{test::seed()};
  for (int program = 0; program < 20; ++program) {
    Bench bench;
    FixedPool pool{bench.ordered,
                   bench.source,
                   {.block_bytes = kBlock, .blocks_at_once = kAtOnce, .most_bytes = 8 * MiB}};
    std::vector<void*> held;
    for (int step = 0; step < 300; ++step) {
      const Stream& stream = random() % 2 == 0 ? bench.main : bench.copy;
      const std::size_t count = 1 + random() % 24;
      if (random() % 5 < 3) {
        std::vector<void*> got(count);
        bool is_served = true;
        try {
          pool.allocate(got, stream);
        } catch (const out_of_memory&) {
          is_served = false;
        }
        REQUIRE(is_served == (held.size() + count <= kBlocks));
        if (!is_served) continue;
        test::busy(bench, stream, got.front(), kBlock);
        held.insert(held.end(), got.begin(), got.end());
      } else {
        std::ranges::shuffle(held, random);
        const std::size_t left = held.size() - std::min(count, held.size());
        const std::span<void* const> freed = std::span{held}.subspan(left);
        for (void* const address : freed) {
          if (random() % 4 == 0) pool.memory().record_use(address, bench.copy);
        }
        pool.memory().deallocate(freed);
        held.resize(left);
      }
    }
    const std::size_t peak = pool.memory().statistics().bytes.reserved.peak;
    CHECK(peak <= 8 * MiB);
    CHECK(pool.memory().statistics().live_blocks == held.size());
    pool.memory().check_invariants();
  }
}

TEST_CASE("a fixed pool serves up to its maximum, even if it is no multiple of a segment") {
  constexpr std::size_t kBlock = 64 << 10;
  for (const std::size_t most : {4 * MiB, 18 * MiB, 63 * MiB}) {
    CAPTURE(most);
    Bench bench;
    FixedPool pool{bench.ordered,
                   bench.source,
                   {.block_bytes = kBlock, .blocks_at_once = 256, .most_bytes = most}};
    std::vector<void*> held(most / (2 * MiB) * (2 * MiB) / kBlock);  // whole pages of the device
    for (void*& address : held) REQUIRE_NOTHROW(address = pool.allocate(bench.main));
    CHECK_THROWS_AS(pool.allocate(bench.main), out_of_memory);
    CHECK(reserved(pool.memory()) <= most);
    pool.memory().deallocate(held);
    pool.memory().check_invariants();
  }
}

TEST_CASE("a fixed pool packs the given number of blocks into each segment") {
  struct Row {
    FixedPoolOptions options;
    std::size_t blocks, segments;  // expected with all blocks up to most_bytes, or with 64
  };
  const Row rows[] = {
      {{.block_bytes = 1500 * KiB, .blocks_at_once = 8}, 64, 8},
      {{.block_bytes = 1500 * KiB, .blocks_at_once = 64, .most_bytes = 64 * MiB}, 43, 1},
      {{.block_bytes = 1500 * KiB, .blocks_at_once = 64, .most_bytes = 100 * MiB}, 68, 2},
      {{.block_bytes = 3 * MiB + 1, .blocks_at_once = 64, .most_bytes = 63 * MiB}, 20, 1},
      {{.block_bytes = 513, .blocks_at_once = 1}, 64, 1},  // the source gives 2 MiB or more
      {{.block_bytes = 3 * MiB, .blocks_at_once = 1}, 64, 64},
  };
  for (const Row& row : rows) {
    CAPTURE(row.options.block_bytes, row.options.blocks_at_once, row.options.most_bytes);
    Bench bench;
    FixedPool pool{bench.ordered, bench.source, row.options};
    std::vector<void*> held;
    try {
      while (row.options.most_bytes != 0 || held.size() < row.blocks) {
        held.push_back(pool.allocate(bench.main));
      }
    } catch (const out_of_memory&) {
    }
    CHECK(held.size() == row.blocks);
    CHECK(pool.memory().statistics().segments == row.segments);
    pool.memory().deallocate(held);
    pool.memory().check_invariants();
  }
}

TEST_CASE("a reserve moves complete pages, as a request does") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  std::vector<void*> held, freed;
  for (int i = 0; i < 8; ++i) {
    (i % 2 == 0 ? held : freed).push_back(allocator.allocate(30 * MiB, bench.main));
  }
  for (void* const address : freed) allocator.deallocate(address);
  bench.ordered.mark(bench.main);
  bench.ordered.synchronize();
  REQUIRE(reserved(allocator) == 240 * MiB);
  CHECK(allocator.reserve(100 * MiB, bench.main) >= 100 * MiB);
  CHECK(reserved(allocator) == 240 * MiB);
  allocator.check_invariants();
}
