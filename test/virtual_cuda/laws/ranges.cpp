#include <cstdint>

#include "test/virtual_cuda/laws/gpu.hpp"

using namespace millrace::test;

namespace {

/** The driver's CUmemAllocationProp and CUmemAccessDesc; the toolkit declares them in cuda.h. */
struct Properties {
  int type = 1;  // pinned
  int handle_types = 0;
  int location_type = 1;  // device
  int location = 0;
  void* windows = nullptr;
  unsigned char flags[8] = {};
};
struct Access {
  int location_type = 1;
  int location = 0;
  int flags = 3;  // read and write
};

/** The driver's functions of virtual memory management, as CUDA documents them. */
struct Driver {
  int (*granularity)(std::size_t*, const Properties*, int);
  int (*reserve)(std::uintptr_t*, std::size_t, std::size_t, std::uintptr_t, unsigned long long);
  int (*free)(std::uintptr_t, std::size_t);
  int (*create)(std::uint64_t*, std::size_t, const Properties*, unsigned long long);
  int (*release)(std::uint64_t);
  int (*map)(std::uintptr_t, std::size_t, std::size_t, std::uint64_t, unsigned long long);
  int (*unmap)(std::uintptr_t, std::size_t);
  int (*set_access)(std::uintptr_t, std::size_t, const Access*, std::size_t);

  Driver() {
    look_up(granularity, "cuMemGetAllocationGranularity");
    look_up(reserve, "cuMemAddressReserve");
    look_up(free, "cuMemAddressFree");
    look_up(create, "cuMemCreate");
    look_up(release, "cuMemRelease");
    look_up(map, "cuMemMap");
    look_up(unmap, "cuMemUnmap");
    look_up(set_access, "cuMemSetAccess");
  }

 private:
  template <typename Function>
  static void look_up(Function& function, const char* name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status{};
    CUDA_OK(cudaGetDriverEntryPointByVersion(name, &found, 12000, 0, &status));
    REQUIRE(status == cudaDriverEntryPointSuccess);
    function = reinterpret_cast<Function>(found);
  }
};

std::size_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  CUDA_OK(cudaMemGetInfo(&free, &total));
  return free;
}

}  // namespace

TEST_CASE(
    "memory that is mapped at two addresses is the same memory, and goes back when unmapped") {
  const Driver driver;
  const Properties properties;
  const Access access;
  const Stream stream;
  const std::size_t before = free_memory();
  std::size_t page = 0;
  REQUIRE(driver.granularity(&page, &properties, 0) == 0);
  std::uintptr_t range = 0;
  REQUIRE(driver.reserve(&range, 4 * page, 0, 0, 0) == 0);
  CHECK(range % page == 0);
  CHECK(free_memory() == before);  // addresses take no memory
  std::uint64_t handle = 0;
  Properties exportable;  // as a file descriptor: what PyTorch's expandable segments ask for
  exportable.handle_types = 1;
  REQUIRE(driver.create(&handle, page, &exportable, 0) == 0);
  CHECK(driver.release(handle) == 0);
  REQUIRE(driver.create(&handle, page, &properties, 0) == 0);
  CHECK(before - free_memory() == page);
  for (const std::size_t at : {0, 2})
    REQUIRE(driver.map(range + at * page, page, 0, handle, 0) == 0);
  CHECK(driver.map(range, page, 0, handle, 0) != 0);  // taken
  for (const std::size_t at : {0, 2})
    CHECK(driver.set_access(range + at * page, page, &access, 1) == 0);
  CHECK(driver.set_access(range, 2 * page, &access, 1) != 0);  // a part is not mapped
  CHECK(driver.release(handle) == 0);

  auto* const first = reinterpret_cast<void*>(range);
  auto* const second = reinterpret_cast<void*>(range + 2 * page);
  CUDA_OK(cudaMemsetAsync(first, 7, page, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(read(second, 64) == all(64, 7));
  cudaPointerAttributes found{};
  CUDA_OK(cudaPointerGetAttributes(&found, second));
  CHECK(found.type == cudaMemoryTypeDevice);

  CHECK(driver.free(range, 4 * page) != 0);  // something is mapped there
  CHECK(driver.unmap(range, page) == 0);
  CHECK(before - free_memory() == page);  // the other mapping keeps it
  CHECK(read(second, 64) == all(64, 7));
  CHECK(driver.unmap(range + 2 * page, page) == 0);
  CHECK(free_memory() == before);
  CHECK(driver.free(range, 4 * page) == 0);
  CHECK(driver.free(range, 4 * page) != 0);
}
