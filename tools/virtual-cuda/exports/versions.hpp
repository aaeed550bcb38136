#pragma once

namespace millrace::virtual_cuda {

/** @brief CUDART_VERSION of the library that this object file is linked into. */
extern const int kRuntimeVersion;

}  // namespace millrace::virtual_cuda
