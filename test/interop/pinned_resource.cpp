// Containers in pinned memory.

#include "millrace/interop/pinned_resource.hpp"

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

struct PinnedBench : Bench {
  CachingAllocator allocator{ordered, pinned, Policy::pinned()};
  PinnedResource resource{allocator, copy};
};

}  // namespace

TEST_CASE("a vector in pinned memory may be destroyed while its copy is running") {
  PinnedBench bench;
  constexpr std::size_t bytes = 4 << 20;
  void* const on_device = bench.device.allocate(bytes);
  const void* first = nullptr;
  {
    const std::pmr::vector<unsigned char> batch(bytes, 7, &bench.resource);
    first = batch.data();
    bench.device.copy(on_device, batch.data(), bytes, CopyKind::host_to_device,
                      bench.copy.handle());
  }
  CHECK(bench.allocator.statistics().live_blocks == 0);
  {
    const std::pmr::vector<unsigned char> next(bytes, 9, &bench.resource);
    CHECK(next.data() != first);  // the copy reads that memory
  }
  bench.copy.synchronize();
  const std::pmr::vector<unsigned char> last(bytes, 9, &bench.resource);
  CHECK(last.data() == first);
  bench.device.free(on_device);
}

TEST_CASE("resources of one allocator are equal, and a large alignment is refused") {
  PinnedBench bench;
  CachingAllocator other{bench.ordered, bench.pinned, Policy::pinned()};
  const PinnedResource same{bench.allocator, bench.main};
  const PinnedResource different{other, bench.copy};
  CHECK(bench.resource.is_equal(same));
  CHECK_FALSE(bench.resource.is_equal(different));
  CHECK_FALSE(bench.resource.is_equal(*std::pmr::new_delete_resource()));
  CHECK_THROWS_AS(bench.resource.allocate(64, 512), std::bad_alloc);
  void* const block = bench.resource.allocate(64, 256);
  CHECK(reinterpret_cast<std::uintptr_t>(block) % 256 == 0);
  bench.resource.deallocate(block, 64, 256);
  CHECK(bench.allocator.statistics().live_blocks == 0);
}

}  // namespace millrace::test
