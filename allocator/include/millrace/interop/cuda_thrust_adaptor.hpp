#pragma once

/// @file
/// Thrust on Millrace's memory: vectors, and execution policies with temporary storage. Needs
/// Thrust's headers, which each CUDA toolkit has, a compiler for CUDA (nvcc -std=c++20), and
/// nothing else. Availability: CCCL 3.0 (toolkit 13.0) and later.

#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/system/cuda/execution_policy.h>

#include <cstddef>
#include <exception>
#include <limits>
#include <new>
#include <type_traits>

#include "millrace/interop/device_memory.hpp"

namespace millrace {

/**
 * @brief Memory for Thrust's vectors: an allocator of `T`s on the default stream.
 *
 * Thrust runs a vector's own work (construction, copies, growth, `v[i]`) on the default stream,
 * regardless of the stream of its algorithms. The memory is therefore allocated and freed in the
 * order of the default stream: the legacy stream, or the calling thread's own in code that is
 * compiled with `--default-stream per-thread`.
 *
 * Work on another stream uses a vector like memory of `cudaMallocAsync(..., 0)`: it starts after
 * the default stream's work (with the legacy stream, streams without `cudaStreamNonBlocking` do so
 * by themselves), and before the vector is destroyed the default stream waits for it, or
 * `record_use` names the stream:
 *
 *   memory.record_use(v.data().get(), stream);
 *
 * For memory of a stream of your own, DeviceMemory::array and `par_nosync` need neither.
 */
template <typename T>
class ThrustAllocator {
 public:
  using value_type = T;
  using pointer = thrust::device_ptr<T>;
  using const_pointer = thrust::device_ptr<const T>;
  using reference = thrust::device_reference<T>;
  using const_reference = thrust::device_reference<const T>;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  // A vector frees with the allocator that allocated: a move and a swap take it along, and a copy
  // keeps its own.
  using propagate_on_container_copy_assignment = std::false_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  template <typename Other>
  struct rebind {
    using other = ThrustAllocator<Other>;
  };

  /** @brief Memory of the current GPU (`default_memory`). @throws as default_memory */
  ThrustAllocator() : memory_(&default_memory(current_gpu())) {}
  /** @brief `memory` outlives every vector that uses this allocator. */
  ThrustAllocator(DeviceMemory& memory) noexcept : memory_(&memory) {}  // NOLINT: as a resource
  template <typename Other>
  ThrustAllocator(const ThrustAllocator<Other>& other) noexcept  // NOLINT: the same memory
      : memory_(&other.memory()) {}

  /** @throws out_of_memory, DeviceError as Allocator::allocate; std::bad_alloc if the bytes of
   *          `count` objects overflow */
  [[nodiscard]] pointer allocate(size_type count) {
    if (count > std::numeric_limits<size_type>::max() / sizeof(T)) throw std::bad_alloc{};
    void* const address = memory_->allocate(count * sizeof(T), kDefaultStream);
    return pointer{static_cast<T*>(address)};
  }
  /** @brief Frees in the order of the default stream. If that fails, the memory stays allocated. */
  void deallocate(pointer address, size_type /*count*/) noexcept {
    try {
      memory_->deallocate(address.get(), kDefaultStream);
    } catch (const std::exception&) {
    }
  }

  [[nodiscard]] DeviceMemory& memory() const noexcept { return *memory_; }

  friend bool operator==(const ThrustAllocator& a, const ThrustAllocator& b) noexcept {
    return a.memory_ == b.memory_;
  }
  friend bool operator!=(const ThrustAllocator& a, const ThrustAllocator& b) noexcept {
    return !(a == b);
  }

 private:
  static int current_gpu() {
    int gpu = 0;
    const cudaError_t error = cudaGetDevice(&gpu);
    if (error != cudaSuccess) throw thrust::system_error(error, thrust::cuda_category());
    return gpu;
  }

  static constexpr cudaStream_t kDefaultStream = nullptr;  // of this source: plain_stream

  DeviceMemory* memory_;
};

/** @brief thrust::device_vector on Millrace's memory. */
template <typename T>
using device_vector = thrust::device_vector<T, ThrustAllocator<T>>;

/**
 * @brief The temporary storage of Thrust's algorithms: bytes in the order of one stream.
 *
 * `par` and `par_nosync` use it. An algorithm frees its storage when it has enqueued its last
 * kernel. The next algorithm on the stream gets the same bytes without a wait.
 */
class ThrustStorage {
 public:
  using value_type = std::byte;
  using pointer = std::byte*;
  using size_type = std::size_t;

  ThrustStorage(DeviceMemory& memory, cudaStream_t stream) noexcept
      : memory_(&memory), stream_(stream) {}

  /** @throws out_of_memory, DeviceError as Allocator::allocate */
  [[nodiscard]] pointer allocate(size_type bytes) {
    return static_cast<pointer>(memory_->allocate(bytes, stream_));
  }
  void deallocate(pointer address, size_type /*bytes*/) noexcept {
    try {
      memory_->deallocate(address, stream_);
    } catch (const std::exception&) {
    }
  }

 private:
  DeviceMemory* memory_;
  cudaStream_t stream_;
};

/**
 * @brief thrust::cuda::par on `stream`, with temporary storage from `memory`. The algorithm waits
 *        for its work.
 *
 *   thrust::sort(millrace::par(memory, stream), keys, keys + n);
 *
 * @param memory  outlives the policy
 * @param stream  exists while the policy is used; its GPU is the current one
 */
[[nodiscard]] inline auto par(DeviceMemory& memory, cudaStream_t stream) {
  return thrust::cuda::par(ThrustStorage{memory, stream}).on(stream);
}
/** @brief The same with thrust::cuda::par_nosync. The algorithm only enqueues its work, unless its
 *         return value depends on the result, as with reduce. */
[[nodiscard]] inline auto par_nosync(DeviceMemory& memory, cudaStream_t stream) {
  return thrust::cuda::par_nosync(ThrustStorage{memory, stream}).on(stream);
}

}  // namespace millrace
