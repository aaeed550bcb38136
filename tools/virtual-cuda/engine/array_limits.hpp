#pragma once

#include <optional>

#include "abi/cuda_runtime_api.h"

namespace millrace::virtual_cuda {

/** @brief Sets the fields maxTexture... and maxSurface... to the limits that the programming guide
 *         lists for compute capability 6.0 and later. */
void set_array_limits(cudaDeviceProp& all);
/** @brief The limit of an attribute; nothing for attributes that are not such a limit. */
[[nodiscard]] std::optional<int> array_limit(cudaDeviceAttr attribute, const cudaDeviceProp& all);

}  // namespace millrace::virtual_cuda
