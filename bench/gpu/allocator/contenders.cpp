#include "gpu/allocator/contenders.hpp"

#include <cstdint>
#include <limits>

#include "gpu/gpu.hpp"
#include "millrace/device/cuda_device.hpp"
#include "millrace/device/stream.hpp"
#include "millrace/memory/caching_allocator.hpp"

namespace millrace::bench {
namespace {

class Millrace final : public Contender {
 public:
  explicit Millrace(const Policy& policy) : policy_(policy) {}

  void* allocate(std::size_t bytes) override { return allocator_.allocate(bytes, main_); }
  void free(void* address, std::size_t) override { allocator_.deallocate(address); }
  void free_used_by_side(void* address, std::size_t) override {
    allocator_.record_use(address, side_);
    allocator_.deallocate(address);
  }

 private:
  Policy policy_;
  std::unique_ptr<CudaDevice> gpu_ = CudaDevice::create(chosen_gpu());
  OrderedDevice device_{*gpu_};
  Stream main_{device_}, side_{device_};
  DeviceSource source_{*gpu_};
  CachingAllocator allocator_{device_, source_, policy_};
};

/// cudaMallocAsync from the device's default pool, told to keep what is freed.
class DriverPool final : public Contender {
 public:
  explicit DriverPool(const Streams& streams) : streams_(streams) {
    check(cudaDeviceGetDefaultMemPool(&pool_, chosen_gpu()), "cudaDeviceGetDefaultMemPool");
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep),
          "cudaMemPoolSetAttribute");
  }
  ~DriverPool() override {
    cuda::quietly(cudaDeviceSynchronize());
    cuda::quietly(cudaMemPoolTrimTo(pool_, 0));
  }

  void* allocate(std::size_t bytes) override {
    void* address = nullptr;
    check(cudaMallocAsync(&address, bytes, streams_.main.get()), "cudaMallocAsync", bytes);
    return address;
  }
  void free(void* address, std::size_t) override {
    check(cudaFreeAsync(address, streams_.main.get()), "cudaFreeAsync", address);
  }
  void free_used_by_side(void* address, std::size_t bytes) override {
    streams_.order_main_after_side();
    free(address, bytes);
  }

 private:
  const Streams& streams_;
  cudaMemPool_t pool_ = nullptr;
};

class CudaMalloc final : public Contender {
 public:
  void* allocate(std::size_t bytes) override {
    void* address = nullptr;
    check(cudaMalloc(&address, bytes), "cudaMalloc", bytes);
    return address;
  }
  void free(void* address, std::size_t) override { check(cudaFree(address), "cudaFree", address); }
  // cudaFree waits for the device.
  void free_used_by_side(void* address, std::size_t bytes) override { free(address, bytes); }
};

}  // namespace

void Streams::order_main_after_side() const {
  check(cudaEventRecord(side_done.get(), side.get()), "cudaEventRecord");
  check(cudaStreamWaitEvent(main.get(), side_done.get(), cudaEventWaitDefault),
        "cudaStreamWaitEvent");
}

std::unique_ptr<Contender> make_millrace(const Streams&) {
  return std::make_unique<Millrace>(Policy::millrace());
}
std::unique_ptr<Contender> make_torch_preset(const Streams&) {
  return std::make_unique<Millrace>(Policy::torch());
}
std::unique_ptr<Contender> make_driver_pool(const Streams& streams) {
  return std::make_unique<DriverPool>(streams);
}
std::unique_ptr<Contender> make_cuda_malloc(const Streams&) {
  return std::make_unique<CudaMalloc>();
}

}  // namespace millrace::bench
