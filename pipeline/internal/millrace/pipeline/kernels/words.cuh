#pragma once

#include <cstdint>

/// @file
/// Shared by the kernels: words of one or four floats, and their distribution over a warp's lanes.

namespace millrace::model::cuda {

constexpr unsigned kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

/** @brief The floats that a lane loads or stores at once. */
template <int size>
struct Word {
  float value[size];
};

template <int size>
__device__ inline Word<size> zero_word() {
  return {};
}

/** @brief Loads a word, with one instruction if it is aligned. */
template <int size>
__device__ inline Word<size> load(const float* from) {
  Word<size> word;
  if constexpr (size == 4) {
    if (reinterpret_cast<std::uintptr_t>(from) % sizeof(float4) == 0) {
      const float4 four = *reinterpret_cast<const float4*>(from);
      return {four.x, four.y, four.z, four.w};
    }
  }
#pragma unroll
  for (int i = 0; i < size; ++i) word.value[i] = from[i];
  return word;
}

template <int size>
__device__ inline void store(float* to, const Word<size>& word) {
  if constexpr (size == 4) {
    if (reinterpret_cast<std::uintptr_t>(to) % sizeof(float4) == 0) {
      *reinterpret_cast<float4*>(to) =
          make_float4(word.value[0], word.value[1], word.value[2], word.value[3]);
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < size; ++i) to[i] = word.value[i];
}

template <int size>
__device__ inline void add_scaled(Word<size>& to, const Word<size>& from, float factor) {
#pragma unroll
  for (int i = 0; i < size; ++i) to.value[i] += factor * from.value[i];
}

template <int size>
__device__ inline float dot(const Word<size>& a, const Word<size>& b) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < size; ++i) sum += a.value[i] * b.value[i];
  return sum;
}

/**
 * @brief How a warp is divided for rows of `words` words.
 *
 * Each group of lanes takes a row, with one word for each lane. A row of more than 32 words is
 * taken by the whole warp, 32 words at a time.
 */
struct WarpRows {
  unsigned lanes;   ///< lanes in a group: a power of two
  unsigned groups;  ///< groups in the warp
  unsigned group, lane;

  __device__ explicit WarpRows(unsigned words) {
    const unsigned thread = threadIdx.x % kWarp;
    lanes = words >= kWarp ? kWarp : words <= 1 ? 1 : 1U << (32 - __clz(words - 1));
    groups = kWarp / lanes;
    group = thread / lanes;
    lane = thread % lanes;
  }

  /** @brief The sum of the groups' values, in every group. The order of additions is fixed. */
  __device__ float over_groups(float value) const {
    for (unsigned offset = lanes; offset < kWarp; offset *= 2) {
      value += __shfl_xor_sync(kAllLanes, value, offset);
    }
    return value;
  }
  template <int size>
  __device__ Word<size> over_groups(Word<size> word) const {
#pragma unroll
    for (int i = 0; i < size; ++i) word.value[i] = over_groups(word.value[i]);
    return word;
  }
  /** @brief The sum of the lanes of each group, in every lane. */
  __device__ float over_lanes(float value) const {
    for (unsigned offset = 1; offset < lanes; offset *= 2) {
      value += __shfl_xor_sync(kAllLanes, value, offset);
    }
    return value;
  }
};

/** @brief The number of this thread's warp in the grid; `warp_count` is that of all warps. */
__device__ inline std::size_t this_warp() {
  return (blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x) / kWarp;
}
__device__ inline std::size_t warp_count() {
  return gridDim.x * static_cast<std::size_t>(blockDim.x) / kWarp;
}
__device__ inline std::size_t this_thread() {
  return blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
}
__device__ inline std::size_t thread_count() {
  return gridDim.x * static_cast<std::size_t>(blockDim.x);
}

}  // namespace millrace::model::cuda
