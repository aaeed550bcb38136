#pragma once

#include <cstdint>

#include "millrace/pipeline/kernels/words.cuh"

/// @file
/// Bit operations and warp sums for kernels.

namespace millrace::capture::cuda {

/** @brief Sets a bit. @return 1 if it was not set */
__device__ inline unsigned set_bit(std::uint32_t* bits, std::uint64_t bit) {
  const std::uint32_t mask = std::uint32_t{1} << (bit % 32);
  return (atomicOr(bits + bit / 32, mask) & mask) == 0 ? 1 : 0;
}

__device__ inline unsigned sum_of_warp(unsigned value) {
  for (unsigned offset = model::cuda::kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(model::cuda::kAllLanes, value, offset);
  }
  return value;
}

/** @brief The sum of the lanes up to this one. */
template <typename T>
__device__ inline T inclusive_of_warp(T value) {
  const unsigned lane = threadIdx.x % model::cuda::kWarp;
  for (unsigned offset = 1; offset < model::cuda::kWarp; offset *= 2) {
    const T before = __shfl_up_sync(model::cuda::kAllLanes, value, offset);
    if (lane >= offset) value += before;
  }
  return value;
}

/** @brief Adds the values of a warp's lanes; all lanes must call it. */
__device__ inline void add_of_warp(unsigned long long& to, unsigned value) {
  value = sum_of_warp(value);
  if (threadIdx.x % model::cuda::kWarp == 0 && value != 0) atomicAdd(&to, value);
}

__device__ inline void subtract_of_warp(unsigned long long& from, unsigned value) {
  value = sum_of_warp(value);
  if (threadIdx.x % model::cuda::kWarp == 0 && value != 0) atomicAdd(&from, 0ULL - value);
}

}  // namespace millrace::capture::cuda
