#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>

#include "model/blas_handle.hpp"

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

}  // namespace millrace::model::cuda
