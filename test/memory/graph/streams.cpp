// Which stream of a capture reuses a block that another stream freed.

#include "millrace/memory/graph_pool.hpp"
#include "test/support/allocators.hpp"
#include "test/support/captured_graph.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

/// A capture of `main` that the destructor ends.
struct StreamRig : Bench {
  ~StreamRig() {
    graph.end();
    capture.end();
  }
  [[nodiscard]] void* allocate(std::size_t bytes, StreamRef stream) {
    return allocator.allocate(bytes, stream);
  }
  void order_after(StreamRef waiter, StreamRef stream) {
    capture.wait(waiter, capture.mark(stream));
  }

  CachingAllocator allocator{ordered, source, Policy::millrace()};
  GraphPool pool{allocator};
  GraphCapture capture{pool, main};
  CapturedGraph graph{device, main.handle()};
};

}  // namespace

TEST_CASE("within a capture memory is reused by the stream that freed it", "[graph]") {
  StreamRig rig;
  void* const first = rig.allocate(5 * MiB, rig.main);
  rig.allocator.deallocate(first);
  CHECK(rig.allocate(5 * MiB, rig.main) == first);
}

TEST_CASE("a marker that was never recorded does not free memory of a capture", "[graph]") {
  StreamRig rig;
  void* const address = rig.allocate(5 * MiB, rig.main);
  for (const std::uint32_t slot : {0U, ~0U, ~0U - 1}) {
    const Point never{{.slot = slot, .generation = 0}, 16};
    CHECK_THROWS_AS(rig.allocator.deallocate(address, never), std::invalid_argument);
  }
  CHECK(rig.allocate(5 * MiB, rig.main) != address);
  rig.allocator.deallocate(address);
  CHECK(rig.allocate(5 * MiB, rig.main) == address);
}

TEST_CASE("another stream of a capture reuses memory after a declared wait for it", "[graph]") {
  StreamRig rig;
  void* const early = rig.allocate(5 * MiB, rig.main);
  rig.allocator.deallocate(early);
  const Point after_early = rig.capture.mark(rig.main);
  void* const late = rig.allocate(9 * MiB, rig.main);
  rig.allocator.deallocate(late);
  rig.capture.wait(rig.copy, after_early);
  CHECK(rig.allocate(5 * MiB, rig.copy) == early);
  CHECK(rig.allocate(9 * MiB, rig.copy) != late);
  rig.order_after(rig.copy, rig.main);
  CHECK(rig.allocate(9 * MiB, rig.copy) == late);
}

TEST_CASE("memory that two streams of a capture used is reused after both", "[graph]") {
  StreamRig rig;
  rig.order_after(rig.copy, rig.main);
  void* const shared = rig.allocate(5 * MiB, rig.main);
  rig.allocator.record_use(shared, rig.copy);
  rig.allocator.deallocate(shared);
  CHECK(rig.allocate(5 * MiB, rig.main) != shared);
  rig.order_after(rig.main, rig.copy);
  CHECK(rig.allocate(5 * MiB, rig.main) == shared);
}

TEST_CASE("memory that a stream outside the capture has owned does not serve the capture",
          "[graph]") {
  StreamRig rig;
  void* const shared = rig.allocate(5 * MiB, rig.main);
  rig.allocator.transfer(shared, rig.copy);  // copy is not captured
  rig.allocator.transfer(shared, rig.main);
  rig.allocator.deallocate(shared);
  CHECK(rig.allocate(5 * MiB, rig.main) != shared);
}

TEST_CASE("memory transferred to another stream of the capture serves that stream", "[graph]") {
  StreamRig rig;
  rig.order_after(rig.copy, rig.main);
  void* const shared = rig.allocate(5 * MiB, rig.main);
  rig.allocator.transfer(shared, rig.copy);
  rig.allocator.deallocate(shared);
  rig.order_after(rig.copy, rig.main);
  CHECK(rig.allocate(5 * MiB, rig.copy) == shared);
}

}  // namespace millrace::test
