#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>

#include "model/blas_handle.hpp"
#include "model/cuda/require.hpp"

namespace millrace::model::cuda {

constexpr unsigned kThreads = 256;
constexpr std::size_t kMostBlocks = 132 * 16;  // enough to fill an H200; the rest is strided over

[[nodiscard]] inline cudaStream_t native(const Queue& queue) {
  return static_cast<cudaStream_t>(queue.stream);
}

/** @brief Blocks for this many threads, or fewer that stride. At least one. */
[[nodiscard]] inline unsigned blocks_for(std::size_t threads, unsigned of_block = kThreads) {
  const std::size_t blocks = (threads + of_block - 1) / of_block;
  return static_cast<unsigned>(std::clamp<std::size_t>(blocks, 1, kMostBlocks));
}

struct Launch {
  const char* name;
  unsigned blocks, threads;
};

/** @brief One of several launches of an operation: those behind it are not made if it is refused.
 *  @throws DeviceError */
template <typename... Parameters, typename... Arguments>
void launch(const Launch& shape, const Queue& queue, void (*kernel)(Parameters...),
            Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = shape.threads;
  config.stream = native(queue);
  require(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...), shape.name);
}

}  // namespace millrace::model::cuda
