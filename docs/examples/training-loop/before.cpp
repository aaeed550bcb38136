// The loop with CUDA's stream-ordered pool.
#include "loop.hpp"

void* allocate(std::size_t bytes, cudaStream_t stream) {
  void* address = nullptr;
  check(cudaMallocAsync(&address, bytes, stream));
  return address;
}

void release(void* address, cudaStream_t stream) { check(cudaFreeAsync(address, stream)); }

int main() {
  cudaMemPool_t pool = nullptr;  // keeps its memory, so that no step waits for the driver
  check(cudaDeviceGetDefaultMemPool(&pool, 0));
  unsigned long long all = ~0ULL;
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
  TrainingLoop{}.run(10);
}
