#pragma once

#include "exports/entry.hpp"

namespace millrace::virtual_cuda {

/** @brief Whether a copy or fill may return before it has taken effect. */
enum class Host { goes_on, waits };

/**
 * @brief A copy on `stream`, with the synchronization that CUDA documents for each kind of memory.
 * @param stream  null: not a stream
 * @param host    `waits` for functions without the suffix Async
 */
cudaError_t copy(CUstream_st* stream, CopyWork work, Host host);
cudaError_t fill(CUstream_st* stream, FillWork work, Host host);

/** @brief Copies one after the other. @param failed  index of the one that failed; may be null */
cudaError_t copy_batch(CUstream_st* stream, void* const* to, const void* const* from,
                       const std::size_t* bytes, std::size_t count, std::size_t* failed);

/** @brief Whether the addresses alone show that CUDA allows a copy. Those of mapped memory do not:
 *         it may lack access. */
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

/** @brief Rows at `address`; `layer_rows` is the number of rows of a layer. */
[[nodiscard]] Plane plane(const void* address, std::size_t pitch = 0, std::size_t layer_rows = 0);
/**
 * @brief A copy of `cudaMemcpy3DParms`, with its arrays. Takes the lock if there are any.
 * @return cudaErrorInvalidValue for a handle of no array, for arrays of elements of different
 * sizes, and for what an array does not have
 */
cudaError_t from_parameters(const cudaMemcpy3DParms& parameters, CopyWork& work);
[[nodiscard]] cudaMemcpy3DParms to_parameters(const CopyWork& work);

// The runtime counts in elements of the arrays that take part in a copy, where the driver and some
// functions of the runtime count in bytes. These take the lock.

/** @brief From bytes to elements. @return an error for a handle of no array, for arrays of elements
 *         of different sizes, and for parts of elements */
cudaError_t in_elements(cudaMemcpy3DParms& box);
/** @brief From elements to bytes. @return an error if an array was freed */
cudaError_t in_bytes(cudaMemcpy3DParms& box);
/** @brief Copies a box whose offsets and width are in bytes. */
cudaError_t copy_bytes_of_box(CUstream_st* stream, cudaMemcpy3DParms box, Host host);

/** @brief Checks the direction of a copy, and sets its engine. */
cudaError_t set_direction(CopyWork& work);

/** @brief The address of a device variable on the current GPU, from the start of its byte `offset`.
 *  @return an error if there is no such variable, or it has fewer than `offset + bytes` bytes */
cudaError_t symbol_address(const void* symbol, std::size_t offset, std::size_t bytes,
                           void** address);

}  // namespace millrace::virtual_cuda
