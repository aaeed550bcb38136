// Memory that is allocated while a stream is captured.

#include <algorithm>
#include <optional>
#include <vector>

#include "millrace/memory/graph_pool.hpp"
#include "test/support/allocators.hpp"
#include "test/support/captured_graph.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

struct Rig : Bench {
  explicit Rig(Policy policy = Policy::millrace(), MemoryLimits limits = {})
      : allocator(ordered, source, std::move(policy), limits) {}

  CachingAllocator allocator;
};

/// Counts the device calls that query or order work. A capture forbids some of them.
[[nodiscard]] std::uint64_t ordering_calls(const Device& device) {
  std::uint64_t calls = 0;
  for (const Call call :
       {Call::record, Call::wait, Call::query_event, Call::query_stream, Call::synchronize_event,
        Call::synchronize_stream, Call::synchronize_device, Call::stream_id}) {
    calls += device.calls(call);
  }
  return calls;
}

/// A capture as a program makes it: announced before the driver's begins, ended after the driver's.
struct Captured {
  Captured(Rig& rig, const GraphPool& pool, StreamRef origin)
      : announced(std::in_place, pool, origin), graph(rig.device, origin.handle()) {}
  void end() {
    graph.end();
    announced->end();
  }
  void abandon() {
    graph.end();
    announced->abandon();
  }

  std::optional<GraphCapture> announced;
  CapturedGraph graph;
};

}  // namespace

TEST_CASE("captures of a pool get the same memory, and no other request gets it", "[graph]") {
  Rig rig;
  const GraphPool pool{rig.allocator};
  const auto capture = [&] {
    Captured captured{rig, pool, rig.main};
    std::vector<void*> addresses;
    for (const std::size_t bytes : {3 * MiB, 512UL, 40 * MiB, 3 * MiB, 7 * MiB}) {
      addresses.push_back(rig.allocator.allocate(bytes, rig.main));
    }
    for (void* const address : addresses) rig.allocator.deallocate(address);
    captured.end();
    return addresses;
  };
  const std::vector<void*> first = capture();
  const std::size_t held = pool.statistics().reserved;
  CHECK(held >= 50 * MiB);
  std::vector<void*> others;
  for (int i = 0; i < 200; ++i) {
    others.push_back(rig.allocator.allocate(MiB << (i % 3), i % 2 == 0 ? rig.main : rig.copy));
    const auto* const begin = static_cast<std::byte*>(others.back());
    CHECK(std::ranges::none_of(first, [&](const void* address) {
      return begin <= address && address < begin + (MiB << (i % 3));
    }));
  }
  capture();
  CHECK(pool.statistics().reserved == held);
  for (void* const address : others) rig.allocator.deallocate(address);
  capture();
  CHECK(pool.statistics().reserved == held);
  rig.allocator.check_invariants();
}

TEST_CASE("a capture makes no ordering call, and with reserved memory no device call", "[graph]") {
  const auto presets = {Policy::millrace(), Policy::torch()};
  for (const Policy& policy : presets) {
    CAPTURE(policy.name);
    Rig rig{policy};
    void* const before = rig.allocator.allocate(8 * MiB, rig.main);
    busy(rig, rig.main, before, 8 * MiB);
    rig.allocator.record_use(before, rig.copy);
    GraphPool pool{rig.allocator};
    const bool reserves = policy.name == "millrace";
    if (reserves) pool.reserve(64 * MiB);
    Captured captured{rig, pool, rig.main};
    const std::uint64_t ordering = ordering_calls(rig.device), all = rig.device.calls();
    std::vector<void*> live;
    for (int i = 0; i < 20; ++i) {
      live.push_back(rig.allocator.allocate(1000U << (i % 8), rig.main));
      live.push_back(rig.allocator.allocate(MiB, rig.main));
      if (i % 3 == 0) rig.allocator.deallocate(live[static_cast<std::size_t>(i)]);
    }
    CHECK(ordering_calls(rig.device) == ordering);
    if (reserves) CHECK(rig.device.calls() == all);
    captured.end();
    CHECK(ordering_calls(rig.device) == ordering);
  }
}

TEST_CASE("a raw handle of a captured stream is known without asking the driver", "[graph]") {
  Rig rig;
  const StreamHandle raw = rig.device.create_stream();
  const GraphPool pool{rig.allocator};
  {
    Captured captured{rig, pool, StreamRef{raw}};
    void* const address = rig.allocator.allocate(MiB, StreamRef{raw});
    rig.allocator.record_use(address, StreamRef{raw});
    rig.allocator.deallocate(address, StreamRef{raw});
    CHECK(rig.allocator.allocate(MiB, StreamRef{raw}) == address);
    captured.end();
    rig.allocator.deallocate(address);
  }
  rig.ordered.synchronize();
  rig.device.destroy_stream(raw);
}

TEST_CASE("a graph gets only complete memory, since any stream may launch it", "[graph]") {
  for (const std::uint64_t number : {0, 1, 2, 3}) {
    VirtualMachine::Options options;
    if (number != 0) options = {.schedule = VirtualMachine::Schedule::adversarial, .seed = number};
    Bench bench{std::size_t{1} << 30, options};
    CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
    void* const used = allocator.allocate(32 * MiB, bench.main);
    Gate gate = bench.device.enqueue_gate(bench.main.handle());
    busy(bench, bench.main, used, 32 * MiB);
    allocator.deallocate(used);
    const GraphPool pool{allocator};
    GraphCapture capture{pool, bench.main};
    void* const given = allocator.allocate(32 * MiB, bench.main);
    CHECK(given != used);
    capture.end();
    gate.open();
    bench.ordered.synchronize();
    GraphCapture second{GraphPool{allocator}, bench.copy};
    CHECK(allocator.allocate(32 * MiB, bench.copy) == used);  // complete memory is reused
    second.end();
  }
}

TEST_CASE("other streams go on while one is captured, and never wait on it", "[graph]") {
  Rig rig;
  void* const shared = rig.allocator.allocate(300 * MiB, rig.main);
  busy(rig, rig.main, shared, MiB);
  const GraphPool pool{rig.allocator};
  Captured captured{rig, pool, rig.main};
  rig.allocator.deallocate(shared);  // main cannot be marked during the capture
  rig.allocator.set_limit(400 * MiB);
  CHECK_THROWS_AS(rig.allocator.allocate(300 * MiB, rig.copy), out_of_memory);
  void* const small = rig.allocator.allocate(20 * MiB, rig.copy);
  rig.allocator.deallocate(small);
  CHECK(rig.ordered.mark(rig.main).stream == rig.main.id());  // made after the capture
  CHECK_THROWS_AS(rig.ordered.synchronize(), DeviceError);
  captured.end();
  CHECK(rig.allocator.allocate(300 * MiB, rig.copy) == shared);
  rig.allocator.check_invariants();
}

TEST_CASE("a mark that is requested during a capture is made after the capture", "[graph]") {
  Rig rig;
  const StreamHandle raw = rig.device.create_stream();
  void* const shared = rig.allocator.allocate(30 * MiB, rig.main);
  rig.allocator.record_use(shared, StreamRef{raw});
  const GraphPool pool{rig.allocator};
  Captured captured{rig, pool, StreamRef{raw}};
  const std::uint64_t marks = rig.device.calls(Call::record);
  rig.allocator.deallocate(shared);
  CHECK(rig.device.calls(Call::record) == marks);
  captured.end();
  CHECK(rig.device.calls(Call::record) == marks + 1);
  rig.device.destroy_stream(raw);
}

TEST_CASE("the error of a request that fails in a capture says what graph pools hold", "[graph]") {
  const auto presets = {Policy::millrace(), Policy::torch()};
  for (const Policy& policy : presets) {
    CAPTURE(policy.name);
    Rig rig{policy, {.limit = 200 * MiB}};
    const GraphPool pool{rig.allocator};
    Captured captured{rig, pool, rig.main};
    void* const first = rig.allocator.allocate(50 * MiB, rig.main);
    void* const second = rig.allocator.allocate(20 * MiB, rig.main);
    rig.allocator.deallocate(second);
    try {
      (void)rig.allocator.allocate(180 * MiB, rig.main);
      FAIL("180 MiB more than there is");
    } catch (const out_of_memory& error) {
      const MemoryPicture& seen = error.picture();
      CHECK(seen.graph_pools >= 70 * MiB);
      CHECK(seen.graph_pools_free == seen.graph_pools - 50 * MiB);
      CHECK_THAT(error.what(), Catch::Matchers::ContainsSubstring("held by graph pools"));
    }
    CHECK(rig.allocator.allocate(20 * MiB, rig.main) == second);  // the capture continues
    rig.allocator.deallocate(first);
    captured.end();
    rig.allocator.check_invariants();
  }
}

TEST_CASE("a capture without room takes the cached memory of other streams", "[graph]") {
  const auto presets = {Policy::millrace(), Policy::torch(), Policy::pinned()};
  for (const Policy& policy : presets) {
    CAPTURE(policy.name);
    Rig rig{policy, {.limit = 200 * MiB}};
    std::vector<void*> cached;
    for (int i = 0; i < 18; ++i) cached.push_back(rig.allocator.allocate(10 * MiB, rig.copy));
    for (void* const address : cached) rig.allocator.deallocate(address);
    rig.copy.synchronize();
    const GraphPool pool{rig.allocator};
    Captured captured{rig, pool, rig.main};
    captured.announced->wait(rig.copy, {});
    void* const large = rig.allocator.allocate(100 * MiB, rig.main);
    CHECK(rig.allocator.block_size(large) == 100 * MiB);
    void* const shared = rig.allocator.allocate(60 * MiB, rig.main, rig.copy);
    CHECK(rig.allocator.block_size(shared) == 60 * MiB);
    CHECK(pool.statistics().reserved == 160 * MiB);
    CHECK_THROWS_AS(rig.allocator.allocate(60 * MiB, rig.copy), out_of_memory);
    captured.end();
  }
}

TEST_CASE("memory reserved for a captured stream is general memory that its pool may take",
          "[graph]") {
  Rig rig;
  GraphPool pool{rig.allocator};
  Captured captured{rig, pool, rig.main};
  CHECK(rig.allocator.reserve(64 * MiB, rig.main) >= 64 * MiB);
  CHECK(pool.statistics().reserved == 0);
  const std::size_t reserved = rig.allocator.statistics().bytes.reserved.current;
  CHECK_THROWS_AS(pool.reserve(64 * MiB), std::logic_error);
  void* const block = rig.allocator.allocate(40 * MiB, rig.main);
  CHECK(pool.statistics().reserved >= 40 * MiB);
  CHECK(rig.allocator.statistics().bytes.reserved.current == reserved);
  rig.allocator.deallocate(block);
  captured.end();
  rig.allocator.check_invariants();
}

TEST_CASE("a capture uses the memory that its pool has reserved before it takes more", "[graph]") {
  Rig rig;
  GraphPool pool{rig.allocator};
  pool.reserve(100 * MiB);
  CHECK(pool.statistics().reserved == 100 * MiB);
  Captured captured{rig, pool, rig.main};
  CHECK_THROWS_AS(pool.reserve(MiB), std::logic_error);
  std::vector<void*> live;
  for (int i = 0; i < 100; ++i) live.push_back(rig.allocator.allocate(MiB, rig.main));
  CHECK(pool.statistics().reserved == 100 * MiB);
  CHECK(pool.statistics().allocated == 100 * MiB);
  captured.end();
}

TEST_CASE("a capture refuses streams and pools that do not belong to it", "[graph]") {
  Rig rig;
  const GraphPool pool{rig.allocator}, other{rig.allocator};
  CHECK_THROWS_AS(GraphCapture(pool, rig.device.legacy_stream()), std::invalid_argument);
  CHECK_THROWS_AS(GraphCapture(pool, rig.device.per_thread_stream()), std::invalid_argument);
  GraphCapture capture{pool, rig.main};
  CHECK_THROWS_AS(GraphCapture(pool, rig.copy), std::logic_error);        // one capture per pool
  CHECK_THROWS_AS(GraphCapture(other, rig.main), std::invalid_argument);  // one pool per stream
  CHECK_THROWS_AS(rig.allocator.allocate(1, rig.main, rig.copy), std::invalid_argument);
  CHECK_THROWS_AS(rig.allocator.allocate(1, rig.copy, rig.main), std::invalid_argument);
  CHECK_THROWS_AS(capture.mark(rig.copy), std::invalid_argument);
  capture.end();
  GraphCapture again{other, rig.main};  // the refused calls changed nothing
  GraphCapture beside{pool, rig.copy};
}

TEST_CASE("a stream that only another allocator captures is refused", "[graph]") {
  Rig rig;
  CachingAllocator pinned{rig.ordered, rig.pinned, Policy::pinned()};
  const GraphPool pool{rig.allocator}, pinned_pool{pinned};
  GraphCapture capture{pool, rig.main};
  CHECK_THROWS_AS(pinned.allocate(MiB, rig.main), std::invalid_argument);
  GraphCapture both{pinned_pool, rig.main};
  void* const host = pinned.allocate(MiB, rig.main);
  pinned.deallocate(host);
  CHECK(pinned.allocate(MiB, rig.main) != host);  // the host may write it at any time
  both.end();
  CHECK(rig.ordered.captured(rig.main.id()));
  capture.end();
  CHECK_FALSE(rig.ordered.captured(rig.main.id()));
}

}  // namespace millrace::test
