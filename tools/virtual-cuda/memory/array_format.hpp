#pragma once

#include <cstddef>

#include "abi/cuda_driver.h"

namespace millrace::virtual_cuda {

/** @brief What an element of an array is: components of one kind and size. */
struct ArrayFormat {
  CUarray_format format = CU_AD_FORMAT_UNSIGNED_INT8;          ///< for the driver
  cudaChannelFormatKind kind = cudaChannelFormatKindUnsigned;  ///< for the runtime
  unsigned bits = 8;                                           ///< of a component
  unsigned channels = 1;                                       ///< components: 1, 2 or 4

  [[nodiscard]] std::size_t element_bytes() const noexcept {
    return static_cast<std::size_t>(bits) / 8 * channels;
  }
  [[nodiscard]] cudaChannelFormatDesc description() const noexcept;
};

/**
 * @brief The format that the runtime describes so.
 * @return cudaErrorInvalidChannelDescriptor if there is none, cudaErrorNotSupported for formats of
 *         blocks, of several planes, and of components that are no whole bytes
 */
[[nodiscard]] cudaError_t find_format(const cudaChannelFormatDesc& wanted, ArrayFormat& found);
/** @brief The same as the driver describes it. @return cudaErrorInvalidValue if there is none */
[[nodiscard]] cudaError_t find_format(CUarray_format wanted, unsigned channels, ArrayFormat& found);

}  // namespace millrace::virtual_cuda
