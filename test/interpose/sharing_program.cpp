// A program that shares memory with other processes: it gets a handle for memory of cudaMalloc.

#include "test/interpose/cuda.hpp"

int main() {
  cudaIpcMemHandle_t handle;
  program::check(cudaIpcGetMemHandle(&handle, program::allocate(program::kMiB)),
                 "cudaIpcGetMemHandle");
  const cudaStream_t stream = program::make_stream();
  program::check(cudaFreeAsync(program::allocate(program::kMiB, stream), stream), "cudaFreeAsync");
  return 0;
}
