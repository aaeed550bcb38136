#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <type_traits>
#include <utility>

#include "cuda_runtime_api.h"
#include "test/kernels/machine.hpp"

/// The part of CUDA C++ that the project's kernels use, for the machine of test/kernels.

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

/** @brief A number that each running thread has, such as threadIdx.x. */
template <unsigned (*get)()>
struct OfThread {
  operator unsigned() const { return get(); }
};
template <unsigned (*get_x)(), unsigned (*get_y)()>
struct Index {
  OfThread<get_x> x;
  OfThread<get_y> y;
};

inline unsigned thread_x() { return place().thread % place().grid.threads.x; }
inline unsigned thread_y() { return place().thread / place().grid.threads.x; }
inline unsigned block_x() { return place().block % place().grid.blocks.x; }
inline unsigned block_y() { return place().block / place().grid.blocks.x; }
inline unsigned threads_x() { return place().grid.threads.x; }
inline unsigned threads_y() { return place().grid.threads.y; }
inline unsigned blocks_x() { return place().grid.blocks.x; }
inline unsigned blocks_y() { return place().grid.blocks.y; }

using ThreadIndex = Index<thread_x, thread_y>;
using BlockIndex = Index<block_x, block_y>;
using BlockSize = Index<threads_x, threads_y>;
using GridSize = Index<blocks_x, blocks_y>;

}  // namespace millrace::test::kernels

inline constexpr millrace::test::kernels::ThreadIndex threadIdx{};
inline constexpr millrace::test::kernels::BlockIndex blockIdx{};
inline constexpr millrace::test::kernels::BlockSize blockDim{};
inline constexpr millrace::test::kernels::GridSize gridDim{};

struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

template <typename T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}

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

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize,
  cudaFuncAttributePreferredSharedMemoryCarveout,
};

namespace millrace::test::kernels {

constexpr std::size_t kSharedUnasked = std::size_t{48} << 10, kShared = std::size_t{227} << 10;

/** @brief The dynamic shared memory that kernels have asked for, in bytes. */
inline std::map<const void*, std::size_t>& shared_limits() {
  static std::map<const void*, std::size_t> limits;
  return limits;
}
/**
 * @brief Runs once, after a kernel has asked for shared memory. A test does here what another
 * thread may do before the launch.
 */
inline std::function<void()>& after_asking() {
  static std::function<void()> next;
  return next;
}
/** @brief True if a GPU of compute capability 9.0 accepts this launch. */
inline bool can_launch(const dim3& grid, const dim3& block, std::size_t shared,
                       const void* kernel) {
  const auto limit = shared_limits().find(kernel);
  return grid.x > 0 && grid.x <= 0x7FFFFFFFU && grid.y > 0 && grid.y <= 65535 && grid.z == 1 &&
         block.x > 0 && block.y > 0 && block.z == 1 && std::uint64_t{block.x} * block.y <= 1024 &&
         shared <= (limit == shared_limits().end() ? kSharedUnasked : limit->second);
}

}  // namespace millrace::test::kernels

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  static_assert((sizeof(Parameters) + ... + 0) <= 4096, "what every architecture takes");
  const dim3 &grid = config->gridDim, &block = config->blockDim;
  const std::size_t shared = config->dynamicSmemBytes;
  if (!::millrace::test::kernels::can_launch(grid, block, shared,
                                             reinterpret_cast<const void*>(kernel))) {
    return cudaErrorInvalidConfiguration;
  }
  ::millrace::test::kernels::run({{grid.x, grid.y}, {block.x, block.y}, shared},
                                 [&] { kernel(static_cast<Parameters>(arguments)...); });
  return cudaSuccess;
}

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  const auto bytes = static_cast<std::size_t>(value);
  if (value < 0 || bytes > ::millrace::test::kernels::kShared) return cudaErrorInvalidValue;
  ::millrace::test::kernels::shared_limits()[reinterpret_cast<const void*>(kernel)] = bytes;
  if (const auto next = std::exchange(::millrace::test::kernels::after_asking(), nullptr)) next();
  return cudaSuccess;
}

enum cudaDeviceAttr { cudaDevAttrMaxSharedMemoryPerBlockOptin };
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = static_cast<int>(::millrace::test::kernels::kShared);
  return cudaSuccess;
}

namespace millrace::model::cuda {
/** @brief Replaces the function of launch.cuh, which needs the toolkit. */
template <typename T>
T* shared_memory() {
  return reinterpret_cast<T*>(::millrace::test::kernels::shared_memory());
}
}  // namespace millrace::model::cuda
