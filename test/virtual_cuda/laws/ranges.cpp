#include <cstdint>

#include "test/virtual_cuda/laws/driver.hpp"

using namespace millrace::test;

namespace {

constexpr int kReadAndWrite = 3;
constexpr int kNoAccess = 0;

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
  int flags = kReadAndWrite;
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

/** Three pages next to each other. No GPU has access to them yet. */
class Pages {
 public:
  Pages() {
    REQUIRE(driver_.granularity(&page_, &properties_, 0) == 0);
    REQUIRE(driver_.reserve(&range_, 3 * page_, 0, 0, 0) == 0);
    for (std::size_t i = 0; i < 3; ++i) {
      std::uint64_t handle = 0;
      REQUIRE(driver_.create(&handle, page_, &properties_, 0) == 0);
      REQUIRE(driver_.map(range_ + i * page_, page_, 0, handle, 0) == 0);
      REQUIRE(driver_.release(handle) == 0);
    }
  }
  ~Pages() {
    driver_.unmap(range_, 3 * page_);
    driver_.free(range_, 3 * page_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void set_access(std::size_t page, int flags) const {
    const Access access{1, 0, flags};
    REQUIRE(driver_.set_access(range_ + page * page_, page_, &access, 1) == 0);
  }
  [[nodiscard]] unsigned char* at(std::size_t page) const {
    return reinterpret_cast<unsigned char*>(range_ + page * page_);
  }
  [[nodiscard]] std::size_t page_bytes() const { return page_; }

 private:
  Driver driver_;
  Properties properties_;
  std::size_t page_ = 0;
  std::uintptr_t range_ = 0;
};

bool refused(cudaError_t error) {
  static_cast<void>(cudaGetLastError());
  return error == cudaErrorInvalidValue;
}

/** True if every way to fill, write or read these bytes is refused. */
bool out_of_reach(unsigned char* memory, std::size_t bytes, const Stream& stream) {
  const DeviceBlock device{bytes};
  const PinnedBlock pinned{bytes};
  std::vector<unsigned char> pageable(bytes);
  bool none = refused(cudaMemsetAsync(memory, 1, bytes, stream)) &&
              refused(cudaMemset2D(memory, bytes / 2, 1, bytes / 4, 2)) &&
              refused(cudaMemcpy2D(memory, bytes / 2, device.get(), bytes / 2, bytes / 4, 2,
                                   cudaMemcpyDefault));
  none = none &&
         driver("cuMemsetD8", address_of(memory), static_cast<unsigned char>(1), bytes) ==
             kInvalidValue &&
         driver("cuMemcpy", address_of(memory), address_of(device.get()), bytes) == kInvalidValue;
  for (void* const other : {static_cast<void*>(device.get()), static_cast<void*>(pinned.get()),
                            static_cast<void*>(pageable.data())})
    none = none && refused(cudaMemcpyAsync(memory, other, bytes, cudaMemcpyDefault, stream)) &&
           refused(cudaMemcpy(other, memory, bytes, cudaMemcpyDefault));
  return none;
}

}  // namespace

TEST_CASE("memory mapped at two addresses is the same memory and is freed when unmapped") {
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
  Properties exportable;  // as a file descriptor, like PyTorch's expandable segments
  exportable.handle_types = 1;
  REQUIRE(driver.create(&handle, page, &exportable, 0) == 0);
  CHECK(driver.release(handle) == 0);
  REQUIRE(driver.create(&handle, page, &properties, 0) == 0);
  CHECK(before - free_memory() == page);
  for (const std::size_t at : {0, 2})
    REQUIRE(driver.map(range + at * page, page, 0, handle, 0) == 0);
  CHECK(driver.map(range, page, 0, handle, 0) != 0);  // already mapped
  CHECK(driver.set_access(range, page, &access, 1) == 0);
  CHECK(driver.set_access(range, 2 * page, &access, 1) != 0);  // a part is not mapped
  CHECK(driver.release(handle) == 0);

  auto* const first = reinterpret_cast<unsigned char*>(range);
  auto* const second = reinterpret_cast<unsigned char*>(range + 2 * page);
  CUDA_OK(cudaMemsetAsync(first, 7, page, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(out_of_reach(second, 64, stream));  // only the first address has access
  CHECK(driver.set_access(range + 2 * page, page, &access, 1) == 0);
  CHECK(read(second, 64) == all(64, 7));
  cudaPointerAttributes found{};
  CUDA_OK(cudaPointerGetAttributes(&found, second));
  CHECK(found.type == cudaMemoryTypeDevice);

  CHECK(driver.free(range, 4 * page) != 0);  // memory is mapped there
  CHECK(driver.unmap(range, page) == 0);
  CHECK(before - free_memory() == page);  // the other mapping keeps it
  CHECK(read(second, 64) == all(64, 7));
  CHECK(driver.unmap(range + 2 * page, page) == 0);
  CHECK(free_memory() == before);
  CHECK(driver.free(range, 4 * page) == 0);
  CHECK(driver.free(range, 4 * page) != 0);
}

TEST_CASE("a copy or fill that touches a page without access is refused and changes nothing") {
  only_virtual("what NVIDIA's runtime does with a part of the memory is not known");
  const Stream stream;
  const Pages pages;
  const std::size_t page = pages.page_bytes();
  unsigned char* const last = pages.at(1) - 8;  // the last bytes before the second page
  CHECK(out_of_reach(pages.at(0), 8, stream));
  pages.set_access(0, kReadAndWrite);
  CUDA_OK(cudaMemset(pages.at(0), 3, page));
  CHECK(out_of_reach(last, 16, stream));
  CHECK(read(last, 8) == all(8, 3));

  // Rows touch the pages in which they lie, and not the pages between them.
  pages.set_access(2, kReadAndWrite);
  CHECK(refused(cudaMemset2D(last, page, 4, 8, 3)));
  CUDA_OK(cudaMemset2D(last, 2 * page, 4, 8, 2));
  CHECK(read(last, 8) == all(8, 4));
  CHECK(read(pages.at(3) - 8, 8) == all(8, 4));

  pages.set_access(0, kNoAccess);
  CHECK(out_of_reach(pages.at(0), 8, stream));
}
