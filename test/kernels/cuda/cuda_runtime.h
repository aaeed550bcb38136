#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda_runtime_api.h"
#include "test/kernels/machine.hpp"

/// CUDA C++ as far as the project's kernels use it, for the machine of test/kernels.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned of_x = 1, unsigned of_y = 1, unsigned of_z = 1)
      : x(of_x), y(of_y), z(of_z) {}
};

namespace millrace::test::kernels {

/** @brief A number that the running thread has. */
template <unsigned (*get)()>
struct OfThread {
  operator unsigned() const { return get(); }
};
inline unsigned get_thread() { return place().thread; }
inline unsigned get_block() { return place().block; }
inline unsigned get_threads() { return place().grid.threads; }
inline unsigned get_blocks() { return place().grid.blocks; }

template <unsigned (*get)()>
struct Index {
  OfThread<get> x;
};

}  // namespace millrace::test::kernels

inline constexpr millrace::test::kernels::Index<millrace::test::kernels::get_thread> threadIdx{};
inline constexpr millrace::test::kernels::Index<millrace::test::kernels::get_block> blockIdx{};
inline constexpr millrace::test::kernels::Index<millrace::test::kernels::get_threads> blockDim{};
inline constexpr millrace::test::kernels::Index<millrace::test::kernels::get_blocks> gridDim{};

struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

inline void __syncthreads() { ::millrace::test::kernels::meet_block(); }
inline int __syncthreads_or(int own) {
  return ::millrace::test::kernels::any_of_block(own != 0) ? 1 : 0;
}
inline void __threadfence() {}
inline void __syncwarp(unsigned = 0xFFFFFFFFU) {
  static_cast<void>(
      ::millrace::test::kernels::meet_warp(::millrace::test::kernels::Meeting::sync, 0));
}

template <typename T>
T __shfl_sync(unsigned, T value, unsigned lane) {
  return ::millrace::test::kernels::from_lane(value, lane);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, unsigned mask) {
  return ::millrace::test::kernels::from_lane(value, (threadIdx.x % 32) ^ mask);
}
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned delta) {
  const unsigned lane = threadIdx.x % 32;
  return ::millrace::test::kernels::from_lane(value, lane < delta ? lane : lane - delta);
}
inline unsigned __ballot_sync(unsigned, bool own) {
  const std::uint64_t* const all =
      ::millrace::test::kernels::meet_warp(::millrace::test::kernels::Meeting::ballot, own ? 1 : 0);
  const std::uint32_t there = ::millrace::test::kernels::lanes_met();
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((there >> lane & 1U) != 0 && all[lane] != 0) votes |= 1U << lane;
  }
  return votes;
}

inline int __popc(unsigned value) { return std::popcount(value); }
inline int __ffs(int value) {
  return value == 0 ? 0 : std::countr_zero(static_cast<unsigned>(value)) + 1;
}
inline int __clz(int value) { return std::countl_zero(static_cast<unsigned>(value)); }
template <typename T>
T __ldcs(const T* from) {
  return *from;
}
template <typename T>
void __stcs(T* to, const T& value) {
  *to = value;
}

template <typename T, typename U>
T atomicAdd(T* at, U value) {
  const T before = *at;
  *at = static_cast<T>(before + static_cast<T>(value));
  return before;
}
template <typename T, typename U>
T atomicOr(T* at, U value) {
  const T before = *at;
  *at = before | static_cast<T>(value);
  return before;
}
template <typename T, typename U>
T atomicMin(T* at, U value) {
  const T before = *at;
  if (static_cast<T>(value) < before) *at = static_cast<T>(value);
  return before;
}
template <typename T, typename U>
T atomicExch(T* at, U value) {
  const T before = *at;
  *at = static_cast<T>(value);
  return before;
}
template <typename T, typename U, typename V>
T atomicCAS(T* at, U compare, V value) {
  const T before = *at;
  if (before == static_cast<T>(compare)) *at = static_cast<T>(value);
  return before;
}
inline unsigned atomicInc(unsigned* at, unsigned most) {
  const unsigned before = *at;
  *at = before >= most ? 0 : before + 1;
  return before;
}

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  ::millrace::test::kernels::run({config->gridDim.x, config->blockDim.x, config->dynamicSmemBytes},
                                 [&] { kernel(static_cast<Parameters>(arguments)...); });
  return cudaSuccess;
}

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize,
  cudaFuncAttributePreferredSharedMemoryCarveout,
};
template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int) {
  return cudaSuccess;
}

namespace millrace::model::cuda {
/** @brief As launch.cuh has it for the toolkit. */
template <typename T>
T* shared_memory() {
  return reinterpret_cast<T*>(::millrace::test::kernels::shared_memory());
}
}  // namespace millrace::model::cuda
