// Memory that a process exports and then imports itself.

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>

#include "test/virtual_cuda/laws/driver.hpp"

using namespace millrace::test;

namespace {

constexpr auto kFile = cudaMemHandleTypePosixFileDescriptor;
constexpr std::size_t kPage = std::size_t{2} << 20;

void* as_handle(int file) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(file)); }

cudaMemPool_t make_pool(cudaMemAllocationHandleType handles) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.handleTypes = handles;
  cudaMemPool_t pool = nullptr;
  CUDA_OK(cudaMemPoolCreate(&pool, &properties));
  return pool;
}

CUmemGenericAllocationHandle create_pages(int handle_types) {
  CUmemAllocationProp properties{};
  properties.type = static_cast<decltype(properties.type)>(1);                    // pinned
  properties.location.type = static_cast<decltype(properties.location.type)>(1);  // on a GPU
  properties.requestedHandleTypes =
      static_cast<decltype(properties.requestedHandleTypes)>(handle_types);
  CUmemGenericAllocationHandle handle = 0;
  DRIVER_OK("cuMemCreate", &handle, kPage, &properties, 0ULL);
  return handle;
}

/** The pages of a handle at their own address. */
class Mapped {
 public:
  explicit Mapped(CUmemGenericAllocationHandle handle) {
    CUmemAccessDesc access{};
    access.location.type = static_cast<decltype(access.location.type)>(1);
    access.flags = static_cast<decltype(access.flags)>(3);
    DRIVER_OK("cuMemAddressReserve", &range_, kPage, std::size_t{0}, CUdeviceptr{0}, 0ULL);
    DRIVER_OK("cuMemMap", range_, kPage, std::size_t{0}, handle, 0ULL);
    DRIVER_OK("cuMemSetAccess", range_, kPage, &access, std::size_t{1});
  }
  ~Mapped() {
    CHECK(driver("cuMemUnmap", range_, kPage) == 0);
    CHECK(driver("cuMemAddressFree", range_, kPage) == 0);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  [[nodiscard]] void* get() const { return reinterpret_cast<void*>(range_); }

 private:
  CUdeviceptr range_ = 0;
};

unsigned char byte_at(const void* address) {
  unsigned char value = 0;
  CUDA_OK(cudaMemcpy(&value, address, 1, cudaMemcpyDeviceToHost));
  return value;
}

}  // namespace

TEST_CASE("memory that is imported from its file descriptor is the same memory") {
  const CUmemGenericAllocationHandle handle = create_pages(kFile);
  int file = -1;
  DRIVER_OK("cuMemExportToShareableHandle", static_cast<void*>(&file), handle, 1, 0ULL);
  CHECK(fcntl(file, F_GETFD) >= 0);
  CUmemGenericAllocationHandle imported = 0;
  DRIVER_OK("cuMemImportFromShareableHandle", &imported, as_handle(file), 1);
  {
    const Mapped first{handle}, second{imported};
    CHECK(first.get() != second.get());
    CUDA_OK(cudaMemset(first.get(), 7, kPage));
    CUDA_OK(cudaDeviceSynchronize());
    CHECK(byte_at(second.get()) == 7);
  }
  CHECK(close(file) == 0);
  DRIVER_OK("cuMemRelease", imported);
  DRIVER_OK("cuMemRelease", handle);
}

TEST_CASE("a file descriptor keeps exported memory until its last duplicate is closed") {
  const std::size_t before = free_memory();
  const CUmemGenericAllocationHandle handle = create_pages(kFile);
  int file = -1;
  DRIVER_OK("cuMemExportToShareableHandle", static_cast<void*>(&file), handle, 1, 0ULL);
  {
    const Mapped pages{handle};
    CUDA_OK(cudaMemset(pages.get(), 9, kPage));
    CUDA_OK(cudaDeviceSynchronize());
  }
  DRIVER_OK("cuMemRelease", handle);
  const int duplicate = dup(file);
  CHECK(close(file) == 0);
  CUmemGenericAllocationHandle imported = 0;
  DRIVER_OK("cuMemImportFromShareableHandle", &imported, as_handle(duplicate), 1);
  CHECK(close(duplicate) == 0);
  {
    const Mapped pages{imported};
    CHECK(byte_at(pages.get()) == 9);
  }
  DRIVER_OK("cuMemRelease", imported);
  CHECK(free_memory() == before);
  CHECK(driver("cuMemImportFromShareableHandle", &imported, as_handle(duplicate), 1) ==
        kInvalidValue);
}

TEST_CASE("a second release of a handle is refused, and its file keeps the memory") {
  const CUmemGenericAllocationHandle handle = create_pages(kFile);
  int file = -1;
  DRIVER_OK("cuMemExportToShareableHandle", static_cast<void*>(&file), handle, 1, 0ULL);
  DRIVER_OK("cuMemRelease", handle);
  CHECK(driver("cuMemRelease", handle) == kInvalidValue);
  CUmemGenericAllocationHandle imported = 0;
  DRIVER_OK("cuMemImportFromShareableHandle", &imported, as_handle(file), 1);
  DRIVER_OK("cuMemRelease", imported);
  CHECK(close(file) == 0);
}

TEST_CASE("only memory that was created for export can be exported") {
  const CUmemGenericAllocationHandle handle = create_pages(0);
  int file = -1;
  CHECK(driver("cuMemExportToShareableHandle", static_cast<void*>(&file), handle, 1, 0ULL) ==
        kInvalidValue);
  DRIVER_OK("cuMemRelease", handle);
  const CUmemGenericAllocationHandle shared = create_pages(kFile);
  CHECK(driver("cuMemExportToShareableHandle", static_cast<void*>(&file), shared, 1, 1ULL) ==
        kInvalidValue);
  CUmemAllocationProp found{};
  DRIVER_OK("cuMemGetAllocationPropertiesFromHandle", &found, shared);
  CHECK(static_cast<int>(found.requestedHandleTypes) == kFile);
  DRIVER_OK("cuMemRelease", shared);
  const cudaMemPool_t pool = make_pool(cudaMemHandleTypeNone);
  CHECK(cudaMemPoolExportToShareableHandle(&file, pool, kFile, 0) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
  CUDA_OK(cudaMemPoolDestroy(pool));
}

TEST_CASE("a pointer of an exported pool is imported and freed once per import") {
  const Stream stream;
  const cudaMemPool_t pool = make_pool(kFile);
  int file = -1;
  CUDA_OK(cudaMemPoolExportToShareableHandle(&file, pool, kFile, 0));
  cudaMemPool_t imported = nullptr;
  CUDA_OK(cudaMemPoolImportFromShareableHandle(&imported, as_handle(file), kFile, 0));
  CHECK(imported != pool);
  CHECK(close(file) == 0);
  void* block = nullptr;
  CUDA_OK(cudaMallocFromPoolAsync(&block, 4096, pool, stream));
  CUDA_OK(cudaMemsetAsync(block, 5, 4096, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  cudaMemPoolPtrExportData data{};
  CUDA_OK(cudaMemPoolExportPointer(&data, block));
  void* seen = nullptr;
  CUDA_OK(cudaMemPoolImportPointer(&seen, imported, &data));
  CHECK(byte_at(seen) == 5);
  CUDA_OK(cudaFreeAsync(seen, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(byte_at(block) == 5);
  std::uint64_t used = 0;
  CUDA_OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  CHECK(used == 4096);
  CUDA_OK(cudaFreeAsync(block, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CUDA_OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  CHECK(used == 0);
  CUDA_OK(cudaMemPoolDestroy(imported));
  CUDA_OK(cudaMemPoolDestroy(pool));
}

TEST_CASE("an imported pool cannot allocate and cannot be the current pool") {
  const Stream stream;
  const cudaMemPool_t pool = make_pool(kFile);
  int file = -1;
  CUDA_OK(cudaMemPoolExportToShareableHandle(&file, pool, kFile, 0));
  cudaMemPool_t imported = nullptr;
  CUDA_OK(cudaMemPoolImportFromShareableHandle(&imported, as_handle(file), kFile, 0));
  void* block = nullptr;
  CHECK(cudaMallocFromPoolAsync(&block, 64, imported, stream) == cudaErrorInvalidValue);
  CHECK(cudaDeviceSetMemPool(0, imported) == cudaErrorInvalidValue);
  cudaMemPoolPtrExportData data{};
  CHECK(cudaMemPoolImportPointer(&block, imported, &data) == cudaErrorInvalidValue);
  CUDA_OK(cudaMallocFromPoolAsync(&block, 64, pool, stream));
  CUDA_OK(cudaMemPoolExportPointer(&data, block));
  void* seen = nullptr;
  CHECK(cudaMemPoolImportPointer(&seen, pool, &data) == cudaErrorInvalidValue);
  CUDA_OK(cudaFreeAsync(block, stream));
  static_cast<void>(cudaGetLastError());
  CHECK(close(file) == 0);
  CHECK(cudaMemPoolImportFromShareableHandle(&imported, as_handle(file), kFile, 0) ==
        cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
  CUDA_OK(cudaMemPoolDestroy(imported));
  CUDA_OK(cudaMemPoolDestroy(pool));
}

TEST_CASE("the process that created a cudaIpc handle cannot open it") {
  const Stream stream;
  const DeviceBlock block{4096};
  cudaIpcMemHandle_t handle{};
  CUDA_OK(cudaIpcGetMemHandle(&handle, block.get()));
  void* opened = nullptr;
  CHECK(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess) ==
        cudaErrorDeviceUninitialized);
  CHECK(driver("cuIpcOpenMemHandle", reinterpret_cast<CUdeviceptr*>(&opened), handle, 1U) ==
        kInvalidContext);
  CHECK(cudaIpcOpenMemHandle(&opened, handle, 0) == cudaErrorInvalidValue);
  void* of_pool = nullptr;
  CUDA_OK(cudaMallocAsync(&of_pool, 4096, stream));
  CHECK(cudaIpcGetMemHandle(&handle, of_pool) == cudaErrorInvalidValue);
  CUDA_OK(cudaFreeAsync(of_pool, stream));
  const PinnedBlock pinned{64};
  CHECK(cudaIpcGetMemHandle(&handle, pinned.get()) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
}
