// A library function that takes a memory resource of CCCL, called with Millrace's memory.
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE  // for CCCL 3.0
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "millrace/interop/cuda_mr_adaptor.hpp"

namespace {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

// CCCL 3.1 gave the resources in stream order the short name, and their functions with it.
#if CCCL_VERSION >= 3001000
using Resource = cuda::mr::resource_ref<cuda::mr::device_accessible>;
void* allocate(Resource resource, std::size_t bytes, cuda::stream_ref stream) {
  return resource.allocate(stream, bytes);
}
void release(Resource resource, void* address, std::size_t bytes, cuda::stream_ref stream) {
  resource.deallocate(stream, address, bytes);
}
#else
using Resource = cuda::mr::async_resource_ref<cuda::mr::device_accessible>;
void* allocate(Resource resource, std::size_t bytes, cuda::stream_ref stream) {
  return resource.allocate_async(bytes, stream);
}
void release(Resource resource, void* address, std::size_t bytes, cuda::stream_ref stream) {
  resource.deallocate_async(address, bytes, stream);
}
#endif

/** The library: it knows nothing of Millrace. Passes the input through memory of `resource`. */
void pass_through(const std::vector<unsigned char>& input, std::vector<unsigned char>& output,
                  Resource resource, cudaStream_t stream) {
  void* const scratch = allocate(resource, input.size(), stream);
  check(cudaMemcpyAsync(scratch, input.data(), input.size(), cudaMemcpyHostToDevice, stream));
  check(cudaMemcpyAsync(output.data(), scratch, input.size(), cudaMemcpyDeviceToHost, stream));
  release(resource, scratch, input.size(), stream);
}

}  // namespace

int main() {
  millrace::DeviceMemory memory{0};
  millrace::CudaResource resource{memory};
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<unsigned char> output(8 << 20);
  for (int step = 0; step < 10; ++step) {
    const std::vector<unsigned char> input(output.size(), static_cast<unsigned char>(step));
    pass_through(input, output, resource, stream);
    check(cudaStreamSynchronize(stream));
    if (output != input) return std::fprintf(stderr, "wrong bytes in step %d\n", step), 1;
  }
  const millrace::MemoryStatistics statistics = memory.statistics();
  std::printf("%llu allocations, %llu of them from new memory, reserved %zu MiB\n",
              static_cast<unsigned long long>(statistics.counts.allocations),
              static_cast<unsigned long long>(statistics.counts.served_grown),
              statistics.bytes.reserved.peak >> 20);
}
