// Makes calls that need memory of the GPU while the allocator keeps 1.5 GiB of 2 GiB free. It is
// linked with short_runtime.cpp. Its exit code is the number of calls that got no memory.

#include <cstdio>

#include "test/interpose/cuda.hpp"

namespace {

int failed = 0;

template <typename Call>
void needs_memory(const char* name, Call call) {
  const cudaStream_t stream = program::make_stream();
  program::check(cudaFreeAsync(program::allocate(1536 * program::kMiB, stream), stream),
                 "cudaFreeAsync");
  program::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  if (const cudaError_t error = call(); error != cudaSuccess) {
    std::fprintf(stderr, "%s gave %s\n", name, cudaGetErrorName(error));
    ++failed;
  }
}

}  // namespace

int main() {
  void* managed = nullptr;
  const cudaChannelFormatDesc format{};
  cudaArray_t array = nullptr;
  cudaMipmappedArray_t mipmapped = nullptr;
  needs_memory("cudaMallocManaged",
               [&] { return cudaMallocManaged(&managed, 1, cudaMemAttachGlobal); });
  needs_memory("cudaMallocArray", [&] { return cudaMallocArray(&array, &format, 1, 1, 0); });
  needs_memory("cudaMalloc3DArray", [&] { return cudaMalloc3DArray(&array, &format, {}, 0); });
  needs_memory("cudaMallocMipmappedArray",
               [&] { return cudaMallocMipmappedArray(&mipmapped, &format, {}, 1, 0); });
  needs_memory("cudaGraphUpload", [] { return cudaGraphUpload(nullptr, nullptr); });
  needs_memory("cudaGraphLaunch", [] { return cudaGraphLaunch(nullptr, nullptr); });
  return failed;
}
