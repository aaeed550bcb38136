// DeviceMemory as a resource of cuda::mr, through CCCL's type-erased references, on the virtual
// CUDA runtime.
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "millrace/interop/cuda_mr_adaptor.hpp"

namespace {

constexpr std::size_t kBytes = 1 << 20;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::_Exit(1);
}

void check(cudaError_t error) { require(error == cudaSuccess, cudaGetErrorString(error)); }

#if CCCL_VERSION >= 3001000
using Reference = cuda::mr::resource_ref<cuda::mr::device_accessible>;
void* allocate(Reference resource, std::size_t bytes, std::size_t alignment, cudaStream_t stream) {
  return resource.allocate(cuda::stream_ref{stream}, bytes, alignment);
}
void release(Reference resource, void* address, std::size_t bytes, cudaStream_t stream) {
  resource.deallocate(cuda::stream_ref{stream}, address, bytes, 256);
}
void* allocate_now(Reference resource, std::size_t bytes) {
  return resource.allocate_sync(bytes, 256);
}
void release_now(Reference resource, void* address, std::size_t bytes) {
  resource.deallocate_sync(address, bytes, 256);
}
#else
using Reference = cuda::mr::async_resource_ref<cuda::mr::device_accessible>;
void* allocate(Reference resource, std::size_t bytes, std::size_t alignment, cudaStream_t stream) {
  return resource.allocate_async(bytes, alignment, cuda::stream_ref{stream});
}
void release(Reference resource, void* address, std::size_t bytes, cudaStream_t stream) {
  resource.deallocate_async(address, bytes, 256, cuda::stream_ref{stream});
}
void* allocate_now(Reference resource, std::size_t bytes) { return resource.allocate(bytes, 256); }
void release_now(Reference resource, void* address, std::size_t bytes) {
  resource.deallocate(address, bytes, 256);
}
#endif

/** Fills memory of a stream with `value` and returns whether the host reads it back. */
bool holds(Reference resource, cudaStream_t stream, int value) {
  auto* const block = static_cast<unsigned char*>(allocate(resource, kBytes, 256, stream));
  static unsigned char found[kBytes];
  check(cudaMemsetAsync(block, value, kBytes, stream));
  check(cudaMemcpyAsync(found, block, kBytes, cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));
  release(resource, block, kBytes, stream);
  for (const unsigned char byte : found) {
    if (byte != value) return false;
  }
  return true;
}

}  // namespace

int main() {
  millrace::DeviceMemory memory{0};
  millrace::DeviceMemory other{0};
  millrace::CudaResource resource{memory};
  const millrace::CudaResource same{memory};
  require(resource == same, "two references to one memory differ");
  require(resource != millrace::CudaResource{other}, "references to two memories are equal");
  const Reference reference{resource};

  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  for (int i = 1; i < 20; ++i) require(holds(reference, streams[i % 2], i), "wrong bytes");
  require(memory.statistics().live_blocks == 0, "a block is left");
  require(memory.statistics().counts.allocations == 19, "requests went elsewhere");

  // No stream still uses memory from a synchronous allocation. So any stream may write it without a
  // wait.
  void* const busy = allocate(reference, kBytes, 256, nullptr);
  for (int i = 0; i < 50; ++i) check(cudaMemsetAsync(busy, i, kBytes, nullptr));
  release(reference, busy, kBytes, nullptr);
  void* const now = allocate_now(reference, kBytes);
  check(cudaMemsetAsync(now, 77, kBytes, streams[1]));
  check(cudaDeviceSynchronize());
  static unsigned char found[kBytes];
  check(cudaMemcpy(found, now, kBytes, cudaMemcpyDeviceToHost));
  for (const unsigned char byte : found) require(byte == 77, "memory was still in use");
  release_now(reference, now, kBytes);

  try {
    static_cast<void>(allocate(reference, kBytes, 4096, streams[0]));
    require(false, "an alignment above 256 was accepted");
  } catch (const std::bad_alloc&) {
  }
  require(memory.statistics().live_blocks == 0, "a block is left");
  return 0;
}
