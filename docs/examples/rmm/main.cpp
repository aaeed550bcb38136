// RMM's containers on Millrace's memory: one line makes it the current resource.
#include <cstdio>
#include <rmm/cuda_stream.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include "millrace/interop/cuda_mr_adaptor.hpp"

int main() {
  millrace::DeviceMemory memory{0};
  static_cast<void>(rmm::mr::set_current_device_resource(millrace::CudaResource{memory}));
  const auto live = [&] { return memory.statistics().bytes.allocated.current >> 20; };
  const rmm::cuda_stream copy{rmm::cuda_stream::flags::non_blocking};
  const rmm::cuda_stream main{rmm::cuda_stream::flags::non_blocking};
  {
    const rmm::device_uvector<float> batch{4 << 20, copy.view()};
    std::printf("a vector: %zu MiB live\n", live());
    // As the memory of RMM's own pool:
    rmm::mr::pool_memory_resource pool{rmm::mr::get_current_device_resource_ref(), 64 << 20};
    const rmm::device_uvector<float> pooled{4 << 20, main.view(), pool};
    std::printf("and a pool of 64 MiB: %zu MiB live\n", live());
  }
  std::printf("after both: %zu MiB live\n", live());
  rmm::mr::reset_current_device_resource();
}
