#include <thrust/mr/disjoint_sync_pool.h>
#include <thrust/mr/new.h>
#include <thrust/system/cuda/memory_resource.h>

#include <cub/util_allocator.cuh>

#include "gpu/allocator/contenders.hpp"
#include "gpu/gpu.hpp"

// The caching allocators of CCCL, which come with the CUDA toolkit.

namespace millrace::bench {
namespace {

class CubCaching final : public Contender {
 public:
  explicit CubCaching(const Streams& streams) : streams_(streams) {}

  void* allocate(std::size_t bytes) override {
    void* address = nullptr;
    check(allocator_.DeviceAllocate(&address, bytes, streams_.main.get()), "DeviceAllocate", bytes);
    return address;
  }
  void free(void* address, std::size_t) override {
    check(allocator_.DeviceFree(address), "DeviceFree", address);
  }
  void free_used_by_side(void* address, std::size_t bytes) override {
    streams_.order_main_after_side();
    free(address, bytes);
  }

 private:
  const Streams& streams_;
  cub::CachingDeviceAllocator allocator_{2, 9, 26};  // powers of two from 512 bytes to 64 MiB
};

/// It knows no streams: whoever frees a block has to know that the device is done with it.
class ThrustPool final : public Contender {
 public:
  explicit ThrustPool(const Streams& streams) : streams_(streams) {}

  void* allocate(std::size_t bytes) override {
    return thrust::raw_pointer_cast(pool_.do_allocate(bytes, kAlignment));
  }
  void free(void* address, std::size_t bytes) override {
    pool_.do_deallocate(thrust::cuda::pointer<void>{address}, bytes, kAlignment);
  }
  void free_used_by_side(void* address, std::size_t bytes) override {
    check(cudaStreamSynchronize(streams_.side.get()), "cudaStreamSynchronize");
    free(address, bytes);
  }

 private:
  static constexpr std::size_t kAlignment = 256;

  const Streams& streams_;
  thrust::mr::disjoint_synchronized_pool_resource<thrust::cuda::memory_resource,
                                                  thrust::mr::new_delete_resource>
      pool_;
};

}  // namespace

std::unique_ptr<Contender> make_cub(const Streams& streams) {
  return std::make_unique<CubCaching>(streams);
}
std::unique_ptr<Contender> make_thrust_pool(const Streams& streams) {
  return std::make_unique<ThrustPool>(streams);
}

}  // namespace millrace::bench
