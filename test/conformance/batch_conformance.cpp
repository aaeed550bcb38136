#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "millrace/memory/forwarding_allocator.hpp"
#include "test/conformance/every_allocator.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using millrace::test::Bench;
using millrace::test::MiB;
using millrace::test::over_every_allocator;

namespace {

void check(Allocator& allocator) {
  if (auto* const caching = dynamic_cast<CachingAllocator*>(&allocator))
    caching->check_invariants();
}

}  // namespace

TEST_CASE("a batch counts as one allocation and one free for each of its blocks") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    std::mt19937_64 random{test::seed()};
    for (int round = 0; round < 50; ++round) {
      std::vector<std::size_t> sizes(random() % 20);
      std::size_t blocks = 0, requested = 0;
      for (std::size_t& bytes : sizes) {
        bytes = random() % 8 == 0 ? 0 : 1 + random() % (round % 2 == 0 ? 4096 : 2 * MiB);
        blocks += bytes != 0 ? 1 : 0;
        requested += bytes;
      }
      std::vector<void*> addresses(sizes.size());
      allocator.allocate(sizes, addresses, bench.main);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        CHECK((addresses[i] == nullptr) == (sizes[i] == 0));
        if (random() % 3 == 0) allocator.record_use(addresses[i], bench.copy);
      }
      CHECK(allocator.statistics().live_blocks == blocks);
      CHECK(allocator.statistics().bytes.requested.current == requested);
      check(allocator);
      std::ranges::shuffle(addresses, random);
      if (round % 3 == 0) {
        allocator.deallocate(addresses, bench.copy);
      } else {
        allocator.deallocate(addresses);
      }
      CHECK(allocator.statistics().live_blocks == 0);
      check(allocator);
    }
  });
}

TEST_CASE("a batch that fails allocates nothing") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    void* const held = allocator.allocate(MiB, bench.main);
    const std::array<std::size_t, 3> sizes{MiB, 3 * MiB, std::size_t{1} << 40};
    const std::array<std::size_t, 3> absurd{MiB, 3 * MiB, std::numeric_limits<std::size_t>::max()};
    std::array<void*, 3> addresses{held, held, held};
    const MemoryStatistics before = allocator.statistics();
    CHECK_THROWS_AS(allocator.allocate(sizes, addresses, bench.main), out_of_memory);
    CHECK_THROWS_AS(allocator.allocate(absurd, addresses, bench.main), out_of_memory);
    CHECK_THROWS_AS(allocator.allocate(std::span{sizes}.first(2), addresses, bench.main),
                    std::invalid_argument);
    CHECK(addresses == std::array<void*, 3>{held, held, held});
    const MemoryStatistics after = allocator.statistics();
    CHECK(after.live_blocks == 1);
    CHECK(after.bytes.requested.current == before.bytes.requested.current);
    CHECK(after.bytes.allocated.current == before.bytes.allocated.current);
    CHECK(after.counts.allocations - after.counts.frees == 1);  // the others are freed again
    check(allocator);
    allocator.deallocate(held);
  });
}

TEST_CASE("a batch of frees with a dead or repeated address frees no block") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    const std::array<std::size_t, 3> sizes{MiB, 512, 3 * MiB};
    std::array<void*, 3> live{};
    allocator.allocate(sizes, live, bench.main);
    int elsewhere = 0;
    for (void* const bad : {static_cast<void*>(&elsewhere), live[0]}) {
      const std::array<void*, 4> addresses{live[0], live[1], live[2], bad};
      CHECK_THROWS_AS(allocator.deallocate(addresses), std::invalid_argument);
      CHECK_THROWS_AS(allocator.deallocate(addresses, bench.copy), std::invalid_argument);
      CHECK(allocator.statistics().live_blocks == 3);
      check(allocator);
    }
    allocator.deallocate(live);
    CHECK(allocator.statistics().live_blocks == 0);
    CHECK_THROWS_AS(allocator.deallocate(live), std::invalid_argument);
  });
}

TEST_CASE("a batch of frees records one marker per stream") {
  for (const Policy& policy : {Policy::torch(), Policy::millrace()}) {
    Bench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy};
    const std::vector<std::size_t> sizes(100, 4096);
    std::vector<void*> addresses(100);
    allocator.allocate(sizes, addresses, bench.main);
    for (void* const address : addresses) allocator.record_use(address, bench.copy);
    const Marker before = bench.ordered.ledger().next(bench.copy.id());
    allocator.deallocate(addresses);
    CHECK(bench.ordered.ledger().next(bench.copy.id()) == before + 1);
    allocator.check_invariants();
  }
}

namespace {

/// Makes every record throw std::bad_alloc, which no device throws.
class OutOfHostMemory final : public DeviceObserver {
 public:
  explicit OutOfHostMemory(Device& device) : device_(device) { device_.add_observer(*this); }
  ~OutOfHostMemory() override { device_.remove_observer(*this); }
  OutOfHostMemory(const OutOfHostMemory&) = delete;
  OutOfHostMemory& operator=(const OutOfHostMemory&) = delete;

  void before(Call call) override {
    if (call == Call::record) throw std::bad_alloc{};
  }

 private:
  Device& device_;
};

}  // namespace

TEST_CASE("a batch of frees that throws leaves all its blocks live") {
  for (const Policy& policy : {Policy::millrace(), Policy::torch()}) {
    CAPTURE(policy.name);
    Bench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy};
    std::vector<std::size_t> sizes{MiB, 2 * MiB, 3 * MiB};
    std::vector<void*> addresses(sizes.size());
    allocator.allocate(sizes, addresses, bench.main);
    allocator.record_use(addresses[1], bench.copy);
    {
      const OutOfHostMemory failing{bench.device};
      CHECK_THROWS_AS(allocator.deallocate(addresses), std::bad_alloc);
    }
    CHECK(allocator.statistics().live_blocks == 3);
    allocator.check_invariants();
    allocator.deallocate(addresses);
    CHECK(allocator.statistics().live_blocks == 0);
    allocator.check_invariants();
  }
}

namespace {

/// Serves three requests and refuses the first free.
class Failing final : public ForwardingAllocator {
 public:
  using ForwardingAllocator::ForwardingAllocator;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef user, Tag tag) override {
    if (++allocations_ == 4) throw std::length_error{"no more than three"};
    return ForwardingAllocator::allocate(bytes, owner, user, tag);
  }
  void deallocate(void* address) override {
    if (++frees_ == 1) throw DeviceError{ErrorCode::unknown, "free", "refused once"};
    ForwardingAllocator::deallocate(address);
  }

 private:
  int allocations_ = 0, frees_ = 0;
};

}  // namespace

TEST_CASE("a batch that fails frees what it can, and throws the original error") {
  Bench bench;
  CachingAllocator memory{bench.ordered, bench.source, Policy::millrace()};
  Failing allocator{memory};
  const std::vector<std::size_t> sizes(4, MiB);
  std::vector<void*> addresses(sizes.size());
  CHECK_THROWS_AS(static_cast<Allocator&>(allocator).allocate(sizes, addresses, bench.main),
                  std::length_error);
  CHECK(memory.statistics().live_blocks == 1);  // the block whose free was refused
}
