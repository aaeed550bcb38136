#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>

#include "test/conformance/every_allocator.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using Catch::Matchers::ContainsSubstring;
using millrace::test::Bench;
using millrace::test::MiB;
using millrace::test::over_every_allocator;

TEST_CASE("zero bytes give a null pointer, which every call accepts and ignores") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    void* const empty = allocator.allocate(0, bench.main);
    CHECK(empty == nullptr);
    CHECK_NOTHROW(allocator.record_use(empty, bench.copy));
    CHECK_NOTHROW(allocator.transfer(empty, bench.copy));
    CHECK_NOTHROW(allocator.deallocate(empty, bench.copy));
    CHECK_NOTHROW(allocator.deallocate(empty, bench.copy.mark()));
    CHECK_NOTHROW(allocator.deallocate(empty));
    CHECK(allocator.statistics().counts.allocations == 0);
    CHECK(allocator.statistics().counts.frees == 0);
  });
}

TEST_CASE("a marker that cannot cover the uses is refused, and the memory stays live") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    const auto refused = [&](void* address, Point marker, const char* why) {
      CHECK_THROWS_AS(allocator.deallocate(address, marker), std::invalid_argument);
      CHECK_THROWS_WITH(allocator.deallocate(address, marker), ContainsSubstring(why));
      CHECK(allocator.statistics().live_blocks == 1);
    };
    const Point before = bench.main.mark(), before_on_copy = bench.copy.mark();
    SECTION("a marker of the stream that the memory was allocated for") {
      void* const address = allocator.allocate(MiB, bench.main);
      refused(address, before, "older than the allocation");
      refused(address, Point{}, "never recorded");
      refused(address, Event{}.point(), "never recorded");
      for (const std::uint32_t slot : {~0U, ~0U - 1}) {
        refused(address, Point{{.slot = slot, .generation = 0}, 16}, "never recorded");
      }
      allocator.deallocate(address, bench.main.mark());
    }
    SECTION("markers of the owner and of the first user") {
      void* const address = allocator.allocate(MiB, bench.main, bench.copy);
      refused(address, before, "older than the allocation");
      refused(address, before_on_copy, "older than the allocation");
      bench.main.wait_stream(bench.copy);
      allocator.deallocate(address, bench.main.mark());
    }
    CHECK(allocator.statistics().live_blocks == 0);
  });
}

TEST_CASE("a destroyed stream gets no memory, and the refused calls change nothing") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    void* const address = allocator.allocate(MiB, bench.main);
    StreamRef gone = bench.main;
    {
      const Stream temporary{bench.ordered, {.name = "temporary"}};
      gone = temporary;
      CHECK_NOTHROW(allocator.deallocate(allocator.allocate(MiB, gone)));
    }
    const auto refuses = [](const auto& call) {
      CHECK_THROWS_AS(call(), std::invalid_argument);
      CHECK_THROWS_WITH(call(), ContainsSubstring("was destroyed or detached"));
    };
    refuses([&] { static_cast<void>(allocator.allocate(MiB, gone)); });
    refuses([&] { static_cast<void>(allocator.allocate(MiB, gone, bench.main)); });
    refuses([&] { static_cast<void>(allocator.allocate(MiB, bench.main, gone)); });
    refuses([&] { allocator.transfer(address, gone); });
    CHECK(allocator.statistics().live_blocks == 1);
    allocator.deallocate(address);
  });
}

TEST_CASE("allocations are aligned to 256 bytes and do not overlap") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    std::mt19937_64 random{test::seed()};
    std::map<std::uintptr_t, std::size_t> live;
    for (int i = 0; i < 200; ++i) {
      const std::size_t bytes = 1 + random() % (i % 3 == 0 ? 4 * MiB : 4096);
      const auto at = reinterpret_cast<std::uintptr_t>(allocator.allocate(bytes, bench.main));
      CHECK(at % 256 == 0);
      const auto after = live.lower_bound(at);
      CHECK((after == live.end() || at + bytes <= after->first));
      CHECK((after == live.begin() || std::prev(after)->first + std::prev(after)->second <= at));
      live.emplace(at, bytes);
      if (live.size() > 60) {
        const auto victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
        allocator.deallocate(reinterpret_cast<void*>(victim->first));
        live.erase(victim);
      }
    }
    for (const auto& [at, bytes] : live) allocator.deallocate(reinterpret_cast<void*>(at));
  });
}

TEST_CASE("a stream gets its own freed memory back without growing") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    allocator.deallocate(allocator.allocate(8 * MiB, bench.main));
    bench.ordered.synchronize();
    const std::size_t reserved = allocator.statistics().bytes.reserved.current;
    for (int i = 0; i < 10; ++i) {
      allocator.deallocate(allocator.allocate(8 * MiB, bench.main));
      bench.ordered.synchronize();
    }
    CHECK(allocator.statistics().bytes.reserved.current == reserved);
  });
}

TEST_CASE("statistics follow the live blocks, by stream and by tag") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    const Tag activations = allocator.tag("activations");
    CHECK(allocator.tag("activations").index == activations.index);
    void* a = allocator.allocate(3 * MiB, bench.main, activations);
    void* b = allocator.allocate(5 * MiB, bench.copy);
    MemoryStatistics now = allocator.statistics();
    CHECK(now.bytes.requested.current == 8 * MiB);
    CHECK(now.bytes.allocated.current >= 8 * MiB);
    CHECK(now.bytes.reserved.current == now.bytes.active.current + now.bytes.cached.current);
    CHECK(now.live_blocks == 2);
    std::map<std::string, std::size_t> by_name;
    for (const auto& share : now.streams) by_name[share.name] = share.allocated.current;
    for (const auto& share : now.tags) by_name[share.name] = share.allocated.current;
    CHECK(by_name.at("main") >= 3 * MiB);
    CHECK(by_name.at("main") == by_name.at("activations"));
    CHECK(by_name.at("main") + by_name.at("copy") == now.bytes.allocated.current);
    allocator.deallocate(a);
    allocator.deallocate(b);
    now = allocator.statistics();
    CHECK(now.bytes.requested.current == 0);
    CHECK(now.bytes.requested.peak == 8 * MiB);
    CHECK(now.counts.allocations == now.counts.frees);
  });
}

TEST_CASE("a scope's peaks begin when it is opened") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    allocator.deallocate(allocator.allocate(16 * MiB, bench.main));
    const ScopeId scope = allocator.open_scope();
    allocator.deallocate(allocator.allocate(4 * MiB, bench.main));
    CHECK(allocator.peaks(scope).requested.peak == 4 * MiB);
    CHECK(allocator.statistics().bytes.requested.peak == 16 * MiB);
    allocator.close_scope(scope);
    CHECK_THROWS_AS(allocator.peaks(scope), std::invalid_argument);
  });
}

TEST_CASE("an address that is not live is refused, and nothing changes") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    void* a = allocator.allocate(MiB, bench.main);
    CHECK_THROWS_AS(allocator.deallocate(static_cast<char*>(a) + 512), std::invalid_argument);
    CHECK_THROWS_AS(allocator.record_use(static_cast<char*>(a) + 512, bench.copy),
                    std::invalid_argument);
    allocator.deallocate(a);
    CHECK_THROWS_AS(allocator.deallocate(a), std::invalid_argument);
    CHECK_THROWS_AS(allocator.transfer(a, bench.copy), std::invalid_argument);
    const std::string named = fmt::format("{} is not a live allocation", a);
    CHECK_THROWS_WITH(allocator.deallocate(a), ContainsSubstring("deallocate: " + named));
    CHECK_THROWS_WITH(allocator.record_use(a, bench.copy),
                      ContainsSubstring("record_use: " + named));
    CHECK_THROWS_WITH(allocator.transfer(a, bench.copy), ContainsSubstring("transfer: " + named));
    CHECK(allocator.statistics().counts.frees == 1);
  });
}

TEST_CASE("a request that cannot be served throws with the whole picture, and loses nothing") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    void* kept = allocator.allocate(MiB, bench.main);
    try {
      (void)allocator.allocate(std::size_t{1} << 50, bench.main);
      FAIL("a PiB was given out");
    } catch (const out_of_memory& error) {
      CHECK(error.picture().requested == std::size_t{1} << 50);
      CHECK_THAT(error.what(), Catch::Matchers::ContainsSubstring("1.00 PiB on main"));
    }
    CHECK_THROWS_AS(allocator.allocate(~std::size_t{0}, bench.main), std::bad_alloc);
    CHECK(allocator.statistics().bytes.requested.current == MiB);
    allocator.deallocate(kept);
    allocator.deallocate(allocator.allocate(MiB, bench.main));
  });
}

TEST_CASE("after everything is freed and trimmed, nothing is reserved") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    std::vector<void*> live;
    for (int i = 0; i < 40; ++i) {
      const std::size_t bytes = (1 + static_cast<std::size_t>(i) % 7) * 700'000;
      const StreamRef stream = i % 2 == 0 ? bench.main : bench.copy;
      live.push_back(allocator.allocate(bytes, stream));
      allocator.record_use(live.back(), i % 3 == 0 ? bench.main : bench.copy);
    }
    for (void* address : live) allocator.deallocate(address);
    CHECK(allocator.statistics().bytes.reserved.current > 0);
    CHECK(allocator.trim() > 0);
    CHECK(allocator.statistics().bytes.reserved.current == 0);
    allocator.deallocate(allocator.allocate(MiB, bench.main));
  });
}

TEST_CASE("memory may be allocated for one stream and used first by another") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    // Frees a block first, so that the next allocation can reuse its memory.
    void* first = allocator.allocate(8 * MiB, bench.main);
    allocator.deallocate(first);
    void* batch = allocator.allocate(8 * MiB, bench.main, bench.copy);
    REQUIRE(batch != nullptr);
    allocator.deallocate(batch);
    CHECK(allocator.statistics().bytes.requested.current == 0);
  });
}

TEST_CASE("memory may be freed by another thread and on a stream other than its owner") {
  over_every_allocator([](Bench& bench, Allocator& allocator) {
    void* address = allocator.allocate(2 * MiB, bench.main);
    auto task =
        bench.machine.executor().spawn("other", [&] { allocator.deallocate(address, bench.copy); });
    task->join();
    CHECK(allocator.statistics().bytes.requested.current == 0);
    void* moved = allocator.allocate(2 * MiB, bench.main);
    allocator.transfer(moved, bench.copy);
    allocator.deallocate(moved);
    CHECK(allocator.statistics().bytes.requested.current == 0);
  });
}
