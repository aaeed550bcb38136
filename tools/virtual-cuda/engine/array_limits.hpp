#pragma once

#include <optional>

#include "abi/cuda_runtime_api.h"

namespace millrace::virtual_cuda {

/** @brief The largest arrays of GPUs from compute capability 6.0 on, as the programming guide lists
 *         them: the fields maxTexture... and maxSurface... */
void set_array_limits(cudaDeviceProp& all);
/** @brief The same as attributes; nothing for other attributes. */
[[nodiscard]] std::optional<int> array_limit(cudaDeviceAttr attribute, const cudaDeviceProp& all);

}  // namespace millrace::virtual_cuda
