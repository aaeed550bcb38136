// A capture, a launch or a pool that fails halfway leaves no partial state.

#include <exception>
#include <optional>
#include <utility>

#include "millrace/device/fault.hpp"
#include "millrace/memory/graph_pool.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/host_memory/failing_host_memory.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

struct FailureRig : Bench {
  FailureRig() { weights = allocator.allocate(3 * MiB, main); }

  /// A block that its destructor frees, also after an exception.
  struct Block {
    Block(FailureRig& of, std::size_t bytes, StreamRef stream) : rig(of) {
      const FailingHostMemory::Paused paused;
      address = rig.allocator.allocate(bytes, stream);
    }
    ~Block() {
      const FailingHostMemory::Paused paused;
      rig.allocator.deallocate(address);
    }
    FailureRig& rig;
    void* address = nullptr;
  };

  /// Captures two streams, one of them raw. The graph uses general memory. Its output is used and
  /// freed after the capture.
  void capture() {
    GraphCapture capture{*pool, raw};
    capture.wait(copy, mark(capture));
    allocator.record_use(weights, raw);
    std::optional<Block> temporary{std::in_place, *this, 30 * MiB, raw};
    const Block output{*this, 5 * MiB, copy};
    temporary.reset();
    static_cast<void>(ordered.mark(copy));  // made after the capture
    // If host memory runs out here, the ledger may lose an event.
    const FailingHostMemory::Paused paused;
    capture.end();
    allocator.record_use(output.address, main);
  }
  Point mark(GraphCapture& capture) {
    const FailingHostMemory::Paused paused;
    return capture.mark(raw);
  }
  /// Destroys the last holder of the pool.
  void drop_pool() {
    pool.reset();
    static_cast<void>(allocator.statistics());
  }
  void launch() { pool->launched(main); }

  /// Checks that nothing is captured, that all of it can be done again, and that no byte is lost.
  void check_whole() {
    CHECK_FALSE(ordered.capturing());
    if (!pool) pool.emplace(allocator);
    CHECK(pool->statistics().capturing == 0);
    capture();
    launch();
    allocator.deallocate(weights);
    drop_pool();
    CHECK(allocator.statistics().graph_pools.pools == 0);
    ordered.synchronize();
    allocator.check_invariants();
    allocator.trim();
    CHECK(allocator.statistics().bytes.reserved.current == 0);
    CHECK(allocator.statistics().live_blocks == 0);
    CHECK(ordered.ledger().tracked_streams() == 3);
    device.destroy_stream(raw);
  }

  CachingAllocator allocator{ordered, source, Policy::millrace()};
  const StreamHandle raw = device.create_stream();
  std::optional<GraphPool> pool{std::in_place, allocator};
  void* weights = nullptr;
};

/// Runs a program once for each possible failure, until no call is left that could fail. The
/// object that `fail` returns injects the failure while it lives.
template <typename Fail, typename Failed>
void fail_each(const Fail& fail, const Failed& failed) {
  for (std::uint64_t number = 1;; ++number) {
    CAPTURE(number);
    FailureRig rig;
    rig.capture();
    try {
      const auto failing = fail(rig, number);
      rig.capture();
      rig.launch();
      const FailingHostMemory::Paused paused;  // giving back is not part of this test
      rig.drop_pool();
    } catch (const std::exception&) {
    }
    const bool was_last = !failed();
    rig.check_whole();
    if (was_last) break;
    REQUIRE(number < 1000);
  }
}

}  // namespace

TEST_CASE("a capture that runs out of host memory loses nothing and can be repeated", "[graph]") {
  fail_each([](FailureRig&, std::uint64_t number) { return FailingHostMemory{number}; },
            [] { return FailingHostMemory::failed(); });
}

TEST_CASE("a capture in which a device call fails loses nothing and can be repeated", "[graph]") {
  std::uint64_t injected = 0;
  struct Faults {
    Faults(FailureRig& rig, std::uint64_t number, std::uint64_t& count)
        : faults(rig.device), injected(count) {
      faults.fail_call(number, ErrorCode::unknown);
    }
    ~Faults() { injected = faults.injected(); }
    FaultInjector faults;
    std::uint64_t& injected;
  };
  fail_each(
      [&](FailureRig& rig, std::uint64_t number) {
        return Faults{rig, number, injected};
      },
      [&] { return injected != 0; });
}

}  // namespace millrace::test
