#pragma once

/// @file
/// DeviceMemory as a resource of CCCL's cuda::mr, and so of RMM. Needs the headers of CCCL, which
/// each CUDA toolkit has, and nothing else. Availability: CCCL 3.0 (toolkit 13.0; define
/// LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE before any include) and later.

#include <cstddef>
#include <cuda/memory_resource>
#include <cuda/stream_ref>
#include <new>
#include <stdexcept>

#include "millrace/interop/device_memory.hpp"

namespace millrace {

/**
 * @brief A resource for device memory in stream order. A copyable reference to a DeviceMemory,
 * which outlives it.
 *
 *   millrace::CudaResource resource{memory};
 *   cuda::mr::any_resource<cuda::mr::device_accessible> any{resource};   // CCCL 3.2 and later
 *   rmm::device_uvector<float> values{size, stream, resource};           // RMM 26.06 and later
 *
 * CCCL swapped the meaning of two names in 3.1: until then, `allocate(bytes, alignment)` is
 * synchronous; since then `allocate(stream, bytes, alignment)` is in stream order. This class has
 * the members of both. Memory is aligned to 256 bytes, as in CCCL's own pools. A larger alignment
 * is an error.
 *
 * The synchronous members use the legacy default stream: the memory may be used by any work that is
 * enqueued after the device or that stream was synchronized, as with cudaMalloc. Before it is
 * freed, all work on it has to be complete.
 */
class CudaResource
#if CCCL_VERSION >= 3004000
    : public ::cuda::mr::memory_resource_base<CudaResource>
#endif
{
 public:
  static constexpr std::size_t kAlignment = 256;

  explicit CudaResource(DeviceMemory& memory) noexcept : memory_(&memory) {}

  /** @name In stream order: CCCL 3.1 and later
   * @{ */
  /** @throws out_of_memory, DeviceError as Allocator::allocate; std::bad_alloc for an alignment
   * above 256 */
  [[nodiscard]] void* allocate(::cuda::stream_ref stream, std::size_t bytes,
                               std::size_t alignment = kAlignment) {
    return memory_->allocate(checked(bytes, alignment), stream.get());
  }
  void deallocate(::cuda::stream_ref stream, void* address, std::size_t /*bytes*/,
                  std::size_t /*alignment*/ = kAlignment) noexcept {
    free([&] { memory_->deallocate(address, stream.get()); });
  }
  /** @} */

  /** @name In stream order: CCCL 3.0
   * @{ */
  [[nodiscard]] void* allocate_async(std::size_t bytes, std::size_t alignment,
                                     ::cuda::stream_ref stream) {
    return allocate(stream, bytes, alignment);
  }
  [[nodiscard]] void* allocate_async(std::size_t bytes, ::cuda::stream_ref stream) {
    return allocate(stream, bytes);
  }
  void deallocate_async(void* address, std::size_t bytes, std::size_t alignment,
                        ::cuda::stream_ref stream) noexcept {
    deallocate(stream, address, bytes, alignment);
  }
  void deallocate_async(void* address, std::size_t bytes, ::cuda::stream_ref stream) noexcept {
    deallocate(stream, address, bytes);
  }
  /** @} */

  /** @name Synchronous: CCCL 3.1 and later
   * @{ */
  [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = kAlignment) {
    void* const address = memory_->allocate(checked(bytes, alignment), kLegacy);
    try {
      // Synchronizing the legacy stream alone would not wait for blocking streams; an event there
      // does.
      memory_->device().synchronize(memory_->mark(kLegacy));
    } catch (...) {
      memory_->deallocate(address);
      throw;
    }
    return address;
  }
  void deallocate_sync(void* address, std::size_t /*bytes*/,
                       std::size_t /*alignment*/ = kAlignment) noexcept {
    free([&] { memory_->deallocate(address); });
  }
  /** @} */

  /** @name Synchronous: CCCL 3.0
   * @{ */
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = kAlignment) {
    return allocate_sync(bytes, alignment);
  }
  void deallocate(void* address, std::size_t bytes, std::size_t alignment = kAlignment) noexcept {
    deallocate_sync(address, bytes, alignment);
  }
  /** @} */

  [[nodiscard]] DeviceMemory& memory() const noexcept { return *memory_; }

  friend bool operator==(const CudaResource& a, const CudaResource& b) noexcept {
    return a.memory_ == b.memory_;
  }
  friend bool operator!=(const CudaResource& a, const CudaResource& b) noexcept {
    return !(a == b);
  }
  /** @brief Kernels can access the memory. The host cannot. */
  friend constexpr void get_property(const CudaResource&, ::cuda::mr::device_accessible) noexcept {}

 private:
  static constexpr CUstream_st* kLegacy = nullptr;

  static std::size_t checked(std::size_t bytes, std::size_t alignment) {
    if (alignment == 0 || kAlignment % alignment != 0) throw std::bad_alloc{};
    return bytes;
  }
  /** A resource's free does not throw. Memory that it cannot free stays allocated. */
  template <typename Free>
  static void free(const Free& free) noexcept {
    try {
      free();
    } catch (const std::exception&) {
    }
  }

  DeviceMemory* memory_;
};

#if CCCL_VERSION >= 3001000
static_assert(::cuda::mr::resource_with<CudaResource, ::cuda::mr::device_accessible>);
static_assert(::cuda::mr::synchronous_resource_with<CudaResource, ::cuda::mr::device_accessible>);
static_assert(!::cuda::mr::resource_with<CudaResource, ::cuda::mr::host_accessible>);
#elif defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
static_assert(::cuda::mr::async_resource_with<CudaResource, ::cuda::mr::device_accessible>);
static_assert(!::cuda::mr::async_resource_with<CudaResource, ::cuda::mr::host_accessible>);
#else
#error "CCCL 3.0: define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE before any include of CCCL"
#endif

}  // namespace millrace
