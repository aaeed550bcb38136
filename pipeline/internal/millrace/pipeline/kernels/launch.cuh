#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>

#include "millrace/device/cuda_calls.hpp"
#include "millrace/pipeline/kernels/blas_handle.hpp"

namespace millrace::model::cuda {

constexpr unsigned kThreads = 256;
constexpr std::size_t kMostBlocks = 132 * 16;  // enough to fill an H200; the rest is strided over

[[nodiscard]] inline cudaStream_t native(const Queue& queue) {
  return static_cast<cudaStream_t>(queue.stream);
}

/** @brief Blocks for this many threads: at least one, at most kMostBlocks. With fewer blocks than
 *         threads need, kernels stride. */
[[nodiscard]] inline unsigned blocks_for(std::size_t threads, unsigned of_block = kThreads) {
  const std::size_t blocks = (threads + of_block - 1) / of_block;
  return static_cast<unsigned>(std::clamp<std::size_t>(blocks, 1, kMostBlocks));
}

struct Launch {
  const char* name;
  unsigned blocks;
  dim3 threads;
  std::size_t shared = 0;  ///< bytes of dynamic shared memory
};

/** @brief Launches a kernel.
 *  @throws DeviceError if CUDA refuses it, so that the operation's later kernels are not launched
 */
template <typename... Parameters, typename... Arguments>
void launch(const Launch& shape, const Queue& queue, void (*kernel)(Parameters...),
            Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = shape.shared;
  config.stream = native(queue);
  check_cuda(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...), shape.name);
}

#ifdef __CUDACC__
/** @brief A block's dynamic shared memory. */
template <typename T>
__device__ T* shared_memory() {
  extern __shared__ __align__(16) unsigned char millrace_shared[];
  return reinterpret_cast<T*>(millrace_shared);
}
#endif

}  // namespace millrace::model::cuda
