#pragma once

#include "exports/entry.hpp"

namespace millrace::virtual_cuda {

/** @brief Whether a call of a copy or fill may return before the work has taken effect. */
enum class Host { goes_on, waits };

/**
 * @brief Copies on `stream`, with the synchronization that CUDA documents for each kind of memory.
 * @param stream  null is an error: the handle is not a stream
 * @param host    `waits` for functions without the suffix Async
 */
cudaError_t copy(CUstream_st* stream, CopyWork work, Host host);
cudaError_t fill(CUstream_st* stream, FillWork work, Host host);

/** @brief Enqueues copies in order. @param failed  gets the index of a failed copy; may be null */
cudaError_t copy_batch(CUstream_st* stream, void* const* to, const void* const* from,
                       const std::size_t* bytes, std::size_t count, std::size_t* failed);

/** @brief Whether the addresses alone show that CUDA allows a copy. For mapped memory they do not,
 *         because access may be missing. */
[[nodiscard]] inline bool plainly_allowed(cudaMemcpyKind kind, const void* to,
                                          const void* from) noexcept {
  const Memory& memory = runtime().memory;
  if (memory.in_range(to) || memory.in_range(from)) return false;
  const bool to_device = memory.in_gpu(to);
  const bool from_device = memory.in_gpu(from);
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

/** @brief Rows at `address`, with `layer_rows` rows in a layer. */
[[nodiscard]] Plane plane(const void* address, std::size_t pitch = 0, std::size_t layer_rows = 0);
/**
 * @brief Makes a copy from `cudaMemcpy3DParms`. Takes the lock if the copy has arrays.
 * @return cudaErrorInvalidValue for a handle that is not an array, for arrays with different
 * element sizes, and for a box outside an array
 */
cudaError_t from_parameters(const cudaMemcpy3DParms& parameters, CopyWork& work);
[[nodiscard]] cudaMemcpy3DParms to_parameters(const CopyWork& work);

// With an array, most functions of the runtime count in elements. The driver and the other
// functions count in bytes. The functions below take the lock.

/** @brief Converts bytes to elements. @return an error for a handle that is not an array, for
 *         arrays with different element sizes, and for parts of elements */
cudaError_t in_elements(cudaMemcpy3DParms& box);
/** @brief Converts elements to bytes. @return an error if an array was freed */
cudaError_t in_bytes(cudaMemcpy3DParms& box);
/** @brief Copies a box whose offsets and width are in bytes. */
cudaError_t copy_bytes_of_box(CUstream_st* stream, cudaMemcpy3DParms box, Host host);

/** @brief Checks the kind of a copy, and sets its direction. */
cudaError_t set_direction(CopyWork& work);

/** @brief The address of byte `offset` of a device variable on the current GPU.
 *  @return an error if the variable does not exist or has fewer than `offset + bytes` bytes */
cudaError_t symbol_address(const void* symbol, std::size_t offset, std::size_t bytes,
                           void** address);

}  // namespace millrace::virtual_cuda
