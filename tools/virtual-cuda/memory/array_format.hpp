#pragma once

#include <cstddef>

#include "abi/cuda_driver.h"

namespace millrace::virtual_cuda {

/** @brief The type of an array's elements: components of one kind and size. */
struct ArrayFormat {
  CUarray_format format = CU_AD_FORMAT_UNSIGNED_INT8;          ///< for the driver
  cudaChannelFormatKind kind = cudaChannelFormatKindUnsigned;  ///< for the runtime
  unsigned bits = 8;                                           ///< size of a component
  unsigned channels = 1;                                       ///< number of components: 1, 2 or 4

  [[nodiscard]] std::size_t element_bytes() const noexcept {
    return static_cast<std::size_t>(bits) / 8 * channels;
  }
  [[nodiscard]] cudaChannelFormatDesc description() const noexcept;
};

/**
 * @brief Finds the format of a runtime's description.
 * @return cudaErrorInvalidChannelDescriptor if no format matches; cudaErrorNotSupported for block
 *         formats, formats of several planes, and components that are not whole bytes
 */
[[nodiscard]] cudaError_t find_format(const cudaChannelFormatDesc& wanted, ArrayFormat& found);
/** @brief Finds a format of the driver's. @return cudaErrorInvalidValue if no format matches */
[[nodiscard]] cudaError_t find_format(CUarray_format wanted, unsigned channels, ArrayFormat& found);

}  // namespace millrace::virtual_cuda
