#include <cstdint>
#include <limits>
#include <new>

#include "allocator/subjects/peer.hpp"
#include "device/cuda/handles.hpp"

// The driver's own allocators, only on a GPU.

namespace millrace::bench {
namespace {

using cuda::check;

cuda::UniquePool make_pool() {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  check(cudaGetDevice(&properties.location.id), "cudaGetDevice");
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep),
        "cudaMemPoolSetAttribute");
  return cuda::UniquePool{pool};
}

class DriverPool final : public Peer {
 public:
  using Peer::Peer;
  ~DriverPool() override { cuda::quietly(cudaDeviceSynchronize()); }

  void* allocate(std::size_t bytes, unsigned stream) override {
    void* address = nullptr;
    count_call(Call::allocate_async);
    const auto on = static_cast<cudaStream_t>(handle(stream).value);
    const cudaError_t error = cudaMallocFromPoolAsync(&address, bytes, pool_.get(), on);
    if (error == cudaErrorMemoryAllocation) throw std::bad_alloc{};
    check(error, "cudaMallocFromPoolAsync", bytes);
    return address;
  }
  void free(void* address, std::size_t, unsigned stream) override {
    count_call(Call::free_async);
    const auto on = static_cast<cudaStream_t>(handle(stream).value);
    check(cudaFreeAsync(address, on), "cudaFreeAsync", address);
  }
  std::size_t peak_reserved() const override {
    std::uint64_t bytes = 0;
    check(cudaMemPoolGetAttribute(pool_.get(), cudaMemPoolAttrReservedMemHigh, &bytes),
          "cudaMemPoolGetAttribute");
    return bytes;
  }

 private:
  cuda::UniquePool pool_ = make_pool();
};

class CudaMalloc final : public Peer {
 public:
  using Peer::Peer;

  void* allocate(std::size_t bytes, unsigned) override {
    void* const address = driver().allocate(bytes);
    if (address == nullptr) throw std::bad_alloc{};
    return address;
  }
  void free(void* address, std::size_t, unsigned) override { driver().free(address); }
  // cudaFree waits for the device.
  void free_used(void* address, std::size_t bytes, unsigned stream,
                 std::span<const unsigned>) override {
    free(address, bytes, stream);
  }
};

}  // namespace

std::unique_ptr<Subject> make_driver_pool(Machine& machine, unsigned streams) {
  return std::make_unique<DriverPool>(machine, streams);
}

std::unique_ptr<Subject> make_cuda_malloc(Machine& machine, unsigned streams) {
  return std::make_unique<CudaMalloc>(machine, streams);
}

}  // namespace millrace::bench
