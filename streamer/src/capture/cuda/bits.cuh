#pragma once

#include <cstdint>

#include "millrace/pipeline/kernels/launch.cuh"
#include "millrace/pipeline/kernels/words.cuh"

/// @file
/// Bit operations and warp sums for kernels, and the names that these kernels share with those of
/// the pipeline.

namespace millrace::capture::cuda {

using model::cuda::blocks_for;
using model::cuda::kAllLanes;
using model::cuda::kThreads;
using model::cuda::kWarp;
using model::cuda::launch;
using model::cuda::shared_memory;
using model::cuda::this_thread;
using model::cuda::this_warp;
using model::cuda::thread_count;
using model::cuda::warp_count;

/** @brief Sets a bit. @return 1 if it was not set */
__device__ inline unsigned set_bit(std::uint32_t* bits, std::uint64_t bit) {
  const std::uint32_t mask = std::uint32_t{1} << (bit % 32);
  return (atomicOr(bits + bit / 32, mask) & mask) == 0 ? 1 : 0;
}

__device__ inline unsigned sum_of_warp(unsigned value) {
  for (unsigned offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, offset);
  }
  return value;
}

/** @brief Returns the sum of the values of the lanes up to this one. */
template <typename T>
__device__ inline T inclusive_of_warp(T value) {
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned offset = 1; offset < kWarp; offset *= 2) {
    const T before = __shfl_up_sync(kAllLanes, value, offset);
    if (lane >= offset) value += before;
  }
  return value;
}

/** @brief Adds the values of a warp's lanes; all lanes must call it. */
__device__ inline void add_of_warp(unsigned long long& to, unsigned value) {
  value = sum_of_warp(value);
  if (threadIdx.x % kWarp == 0 && value != 0) atomicAdd(&to, value);
}

__device__ inline void subtract_of_warp(unsigned long long& from, unsigned value) {
  value = sum_of_warp(value);
  if (threadIdx.x % kWarp == 0 && value != 0) atomicAdd(&from, 0ULL - value);
}

}  // namespace millrace::capture::cuda
