// Pools of memory that the host can access: managed memory and pinned host memory.

#include <cstdint>
#include <cstring>

#include "test/virtual_cuda/laws/driver.hpp"
#include "test/virtual_cuda/laws/gpu.hpp"

using namespace millrace::test;

namespace {

struct Place {
  cudaMemAllocationType type;
  cudaMemLocation location;
};

constexpr cudaMemLocation kNowhere{cudaMemLocationTypeInvalid, 0};
constexpr cudaMemLocation kHost{cudaMemLocationTypeHost, 0};
constexpr cudaMemLocation kNode{cudaMemLocationTypeHostNuma, 0};
constexpr cudaMemLocation kCurrentNode{cudaMemLocationTypeHostNumaCurrent, 0};
constexpr cudaMemLocation kGpu{cudaMemLocationTypeDevice, 0};

const Place kPlaces[] = {
    {cudaMemAllocationTypeManaged, kNowhere}, {cudaMemAllocationTypeManaged, kGpu},
    {cudaMemAllocationTypeManaged, kHost},    {cudaMemAllocationTypeManaged, kNode},
    {cudaMemAllocationTypePinned, kHost},     {cudaMemAllocationTypePinned, kNode},
};

cudaMemPoolProps properties_of(const Place& place) {
  cudaMemPoolProps properties{};
  properties.allocType = place.type;
  properties.location = place.location;
  return properties;
}

cudaMemPool_t make_pool(const Place& place) {
  const cudaMemPoolProps properties = properties_of(place);
  cudaMemPool_t pool = nullptr;
  CUDA_OK(cudaMemPoolCreate(&pool, &properties));
  std::uint64_t keep = ~std::uint64_t{0};
  CUDA_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  return pool;
}

void give_access(cudaMemPool_t pool, const cudaMemLocation& gpu) {
  const cudaMemAccessDesc access{gpu, cudaMemAccessFlagsProtReadWrite};
  CUDA_OK(cudaMemPoolSetAccess(pool, &access, 1));
}

/** A pool that the GPU may use. Pinned pools need access for the GPU to be set. */
cudaMemPool_t make_usable_pool(const Place& place) {
  const cudaMemPool_t pool = make_pool(place);
  if (place.type == cudaMemAllocationTypePinned) give_access(pool, kGpu);
  return pool;
}

cudaError_t create(const cudaMemPoolProps& properties) {
  cudaMemPool_t pool = nullptr;
  const cudaError_t error = cudaMemPoolCreate(&pool, &properties);
  if (error == cudaSuccess) cudaMemPoolDestroy(pool);
  static_cast<void>(cudaGetLastError());
  return error;
}

}  // namespace

TEST_CASE("host and GPU see each other's writes to memory of a host pool") {
  for (const Place& place : kPlaces) {
    CAPTURE(place.type, place.location.type);
    const Stream stream;
    const cudaMemPool_t pool = make_usable_pool(place);
    unsigned char* const block = take(pool, 4096, stream);
    CUDA_OK(cudaMemsetAsync(block, 7, 4096, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    CHECK(block[0] == 7);
    CHECK(block[4095] == 7);

    std::memset(block, 9, 4096);
    const DeviceBlock copy{4096};
    CUDA_OK(cudaMemcpyAsync(copy.get(), block, 4096, cudaMemcpyDefault, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    CHECK(read(copy.get(), 4096) == all(4096, 9));
    CUDA_OK(cudaFreeAsync(block, stream));
    CUDA_OK(cudaMemPoolDestroy(pool));
  }
}

TEST_CASE("memory of a host pool has the type of its pool, and no type after its free") {
  for (const Place& place : kPlaces) {
    CAPTURE(place.type, place.location.type);
    const Stream stream;
    const cudaMemPool_t pool = make_pool(place);
    unsigned char* const block = take(pool, 4096, stream);
    cudaPointerAttributes known{};
    CUDA_OK(cudaPointerGetAttributes(&known, block + 100));
    CHECK(known.type == (place.type == cudaMemAllocationTypeManaged ? cudaMemoryTypeManaged
                                                                    : cudaMemoryTypeHost));
    CHECK(known.hostPointer == block + 100);
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    const int found_range = driver("cuMemGetAddressRange", &base, &bytes, address_of(block + 100));
    if (place.type == cudaMemAllocationTypeManaged) {
      CHECK(found_range == 0);
      CHECK(base == address_of(block));
      CHECK(bytes == 4096);
    } else {
      CHECK(found_range == kNotFound);
    }
    cudaMemPool_t found = nullptr;
    DRIVER_OK("cuPointerGetAttribute", static_cast<void*>(&found), 17, address_of(block));
    CHECK(found == pool);

    CUDA_OK(cudaFreeAsync(block, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaPointerGetAttributes(&known, block));
    CHECK(known.type == cudaMemoryTypeUnregistered);
    CUDA_OK(cudaMemPoolDestroy(pool));
  }
}

TEST_CASE("a host pool reuses memory in stream order and returns it at a trim") {
  for (const Place& place : kPlaces) {
    CAPTURE(place.type, place.location.type);
    const Stream owner;
    const Stream other;
    const Event event;
    const cudaMemPool_t pool = make_usable_pool(place);
    constexpr std::size_t kBytes = 32 << 20;
    unsigned char* const first = take(pool, kBytes, owner);
    for (int i = 0; i < 4; ++i) CUDA_OK(cudaMemsetAsync(first, i, kBytes, owner));
    CUDA_OK(cudaFreeAsync(first, owner));
    unsigned char* const second = take(pool, kBytes, other);
    CHECK((second != first) == deferred());
    CUDA_OK(cudaFreeAsync(second, other));
    CUDA_OK(cudaEventRecord(event, owner));
    CUDA_OK(cudaStreamWaitEvent(other, event, 0));
    CUDA_OK(cudaStreamSynchronize(other));
    CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
    CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) >= kBytes);
    CUDA_OK(cudaMemPoolTrimTo(pool, 0));
    CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0);

    std::uint64_t none = 0;
    CUDA_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &none));
    CUDA_OK(cudaFreeAsync(take(pool, kBytes, owner), owner));
    CUDA_OK(cudaStreamSynchronize(owner));
    CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
    CUDA_OK(cudaMemPoolDestroy(pool));
  }
}

TEST_CASE("cudaFree frees memory of a host pool, and cudaFreeHost refuses it") {
  for (const Place& place : kPlaces) {
    CAPTURE(place.type, place.location.type);
    const Stream stream;
    const cudaMemPool_t pool = make_pool(place);
    unsigned char* const block = take(pool, 2 << 20, stream);  // a whole segment
    CHECK(cudaFreeHost(block) == cudaErrorInvalidValue);
    static_cast<void>(cudaGetLastError());
    CUDA_OK(cudaFree(block));
    CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
    CHECK(cudaFree(block) == cudaErrorInvalidValue);
    CHECK(cudaFreeAsync(block, stream) == cudaErrorInvalidValue);
    static_cast<void>(cudaGetLastError());
    CUDA_OK(cudaMemPoolDestroy(pool));
  }
}

TEST_CASE("each location has a default pool, which is current until another pool is set") {
  for (const Place& place : kPlaces) {
    CAPTURE(place.type, place.location.type);
    cudaMemLocation location = place.location;
    cudaMemPool_t usual = nullptr;
    cudaMemPool_t current = nullptr;
    CUDA_OK(cudaMemGetDefaultMemPool(&usual, &location, place.type));
    CUDA_OK(cudaMemGetMemPool(&current, &location, place.type));
    CHECK(current == usual);
    for (const Place& other : kPlaces) {
      if (other.type == place.type && other.location.type == place.location.type) continue;
      cudaMemLocation there = other.location;
      cudaMemPool_t theirs = nullptr;
      CUDA_OK(cudaMemGetDefaultMemPool(&theirs, &there, other.type));
      CHECK(theirs != usual);
      CHECK(cudaMemSetMemPool(&there, other.type, usual) == cudaErrorInvalidValue);
      static_cast<void>(cudaGetLastError());
    }
    const cudaMemPool_t pool = make_pool(place);
    CUDA_OK(cudaMemSetMemPool(&location, place.type, pool));
    CUDA_OK(cudaMemGetMemPool(&current, &location, place.type));
    CHECK(current == pool);
    CUDA_OK(cudaMemPoolDestroy(pool));
    CUDA_OK(cudaMemGetMemPool(&current, &location, place.type));
    CHECK(current == usual);
    CHECK(cudaMemPoolDestroy(usual) == cudaErrorInvalidValue);
    static_cast<void>(cudaGetLastError());
  }
  cudaMemLocation gpu = kGpu;
  cudaMemPool_t set = nullptr;
  cudaMemPool_t usual = nullptr;
  CUDA_OK(cudaDeviceGetDefaultMemPool(&usual, 0));
  CUDA_OK(cudaMemSetMemPool(&gpu, cudaMemAllocationTypePinned, usual));
  CUDA_OK(cudaDeviceGetMemPool(&set, 0));
  CHECK(set == usual);
}

TEST_CASE("host pools report the access of the host and of a GPU") {
  for (const Place& place : kPlaces) {
    CAPTURE(place.type, place.location.type);
    const bool managed = place.type == cudaMemAllocationTypeManaged;
    const cudaMemPool_t pool = make_pool(place);
    cudaMemLocation gpu = kGpu;
    cudaMemLocation host = kHost;
    cudaMemAccessFlags flags{};
    CUDA_OK(cudaMemPoolGetAccess(&flags, pool, &host));
    // A managed pool reports only the access that was set, although every device may use its
    // memory.
    CHECK(flags == (managed ? cudaMemAccessFlagsProtNone : cudaMemAccessFlagsProtReadWrite));
    CUDA_OK(cudaMemPoolGetAccess(&flags, pool, &gpu));
    CHECK(flags == cudaMemAccessFlagsProtNone);
    give_access(pool, gpu);
    CUDA_OK(cudaMemPoolGetAccess(&flags, pool, &gpu));
    CHECK(flags == cudaMemAccessFlagsProtReadWrite);
    CUDA_OK(cudaMemPoolDestroy(pool));
  }
}

TEST_CASE("a pool with a location that does not exist or invalid properties is refused") {
  constexpr cudaMemLocation kNoNode{cudaMemLocationTypeHostNuma, 7};
  constexpr cudaMemLocation kNoGpu{cudaMemLocationTypeDevice, 99};
  for (const Place& place :
       {Place{cudaMemAllocationTypePinned, kNoNode}, Place{cudaMemAllocationTypeManaged, kNoNode},
        Place{cudaMemAllocationTypePinned, kCurrentNode},
        Place{cudaMemAllocationTypePinned, kNowhere}, Place{cudaMemAllocationTypeInvalid, kHost},
        Place{cudaMemAllocationTypeManaged, kNoGpu}}) {
    CAPTURE(place.type, place.location.type);
    CHECK(create(properties_of(place)) == cudaErrorInvalidValue);
  }

  cudaMemPoolProps managed = properties_of({cudaMemAllocationTypeManaged, kNowhere});
  managed.maxSize = 1 << 20;  // CUDA documents 0 for managed memory
  CHECK(create(managed) == cudaErrorInvalidValue);
  managed.maxSize = 0;
  managed.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  CHECK(create(managed) == cudaErrorInvalidValue);
  cudaMemPoolProps pinned = properties_of({cudaMemAllocationTypePinned, kHost});
  pinned.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  CHECK(create(pinned) == cudaErrorInvalidValue);
}

TEST_CASE("a managed pool may be at the current NUMA node") {
  const Stream stream;
  const cudaMemPool_t pool = make_pool({cudaMemAllocationTypeManaged, kCurrentNode});
  unsigned char* const block = take(pool, 4096, stream);
  CUDA_OK(cudaMemsetAsync(block, 7, 4096, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(block[4095] == 7);
  CUDA_OK(cudaFreeAsync(block, stream));
  CUDA_OK(cudaMemPoolDestroy(pool));
}

TEST_CASE("a host pool refuses an allocation above its maximum size") {
  const Stream stream;
  cudaMemPoolProps properties = properties_of({cudaMemAllocationTypePinned, kHost});
  properties.maxSize = 4 << 20;
  cudaMemPool_t pool = nullptr;
  CUDA_OK(cudaMemPoolCreate(&pool, &properties));
  void* address = nullptr;
  CHECK(cudaMallocFromPoolAsync(&address, 5 << 20, pool, stream) == cudaErrorMemoryAllocation);
  static_cast<void>(cudaGetLastError());
  CUDA_OK(cudaMallocFromPoolAsync(&address, 3 << 20, pool, stream));
  CUDA_OK(cudaFreeAsync(address, stream));
  CUDA_OK(cudaMemPoolDestroy(pool));
}
