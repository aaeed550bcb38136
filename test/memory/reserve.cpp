#include <array>
#include <random>
#include <stdexcept>
#include <vector>

#include "millrace/memory/fixed_pool.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using millrace::test::Bench;

namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

std::vector<Policy> presets() {
  return {Policy::torch(), Policy::millrace(), test::exact_segments(Policy::millrace())};
}

std::size_t reserved(Allocator& allocator) { return allocator.statistics().bytes.reserved.current; }

}  // namespace

TEST_CASE("what was reserved serves its stream's requests, and nothing grows") {
  for (const Policy& policy : presets()) {
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
  for (const Policy& policy : presets()) {
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

TEST_CASE("what was reserved is given back after everything else that is free") {
  for (const Policy& policy : presets()) {
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

TEST_CASE("a fixed pool gives blocks of one size by the one rule, up to its maximum") {
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
  CHECK(pool.allocate(bench.copy) == freed);  // made to wait for it: there is no other
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
