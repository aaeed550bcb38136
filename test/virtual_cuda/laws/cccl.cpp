#if MILLRACE_TEST_TOOLKIT
// CUB's headers use the launch syntax and a few builtins, which only nvcc has.
#include <cuda_runtime.h>

#include <cub/util_allocator.cuh>
#include <random>

#include "test/virtual_cuda/laws/gpu.hpp"

using namespace millrace::test;

TEST_CASE("CUB's caching allocator reuses a block on its stream at once, on others when done") {
  cub::CachingDeviceAllocator allocator{2, 9, 30};
  const Stream first;
  const Stream second;
  const DeviceBlock source{1 << 16};
  void* block = nullptr;
  CUDA_OK(allocator.DeviceAllocate(&block, 1 << 16, first));
  CUDA_OK(cudaMemcpyAsync(block, source.get(), 1 << 16, cudaMemcpyDeviceToDevice, first));
  CUDA_OK(allocator.DeviceFree(block));
  void* again = nullptr;
  CUDA_OK(allocator.DeviceAllocate(&again, 1 << 16, first));
  CHECK(again == block);
  CUDA_OK(cudaMemcpyAsync(block, source.get(), 1 << 16, cudaMemcpyDeviceToDevice, first));
  CUDA_OK(allocator.DeviceFree(again));
  CUDA_OK(cudaStreamSynchronize(first));
  void* other = nullptr;
  // The allocator queries the event of the free once, and the query may still return "not ready".
  CUDA_OK(allocator.DeviceAllocate(&other, 1 << 16, second));
  static_cast<void>(cudaGetLastError());
  CHECK((other == block || deferred()));
  CUDA_OK(allocator.DeviceFree(other));
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("blocks of CUB's allocator keep the bytes that are written to them") {
  cub::CachingDeviceAllocator allocator{2, 9, 30};
  const Stream streams[2];
  std::mt19937 random{1};
  struct Live {
    void* address;
    std::size_t bytes;
    unsigned char value;
    const Stream* stream;
  };
  std::vector<Live> live;
  for (int i = 0; i < 300; ++i) {
    if (live.size() < 12) {
      Live made{nullptr, 1 + random() % 9000, static_cast<unsigned char>(random()),
                &streams[random() % 2]};
      CUDA_OK(allocator.DeviceAllocate(&made.address, made.bytes, *made.stream));
      // CUB queries whether events are done, and leaves "not ready" as the next call's error.
      static_cast<void>(cudaGetLastError());
      CUDA_OK(cudaMemsetAsync(made.address, made.value, made.bytes, *made.stream));
      live.push_back(made);
      continue;
    }
    const std::size_t chosen = random() % live.size();
    const Live dead = live[chosen];
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(chosen));
    std::vector<unsigned char> seen(dead.bytes);
    CUDA_OK(cudaMemcpyAsync(seen.data(), dead.address, dead.bytes, cudaMemcpyDeviceToHost,
                            *dead.stream));
    REQUIRE(seen == all(dead.bytes, dead.value));
    CUDA_OK(allocator.DeviceFree(dead.address));
  }
  for (const Live& last : live) CUDA_OK(allocator.DeviceFree(last.address));
  static_cast<void>(cudaGetLastError());
}
#endif
