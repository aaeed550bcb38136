#pragma once

#include "abi/cuda_runtime_api.h"

namespace millrace::virtual_cuda {

/**
 * @brief Names a function that the virtual runtime lacks on standard error, once a process.
 * @return cudaErrorNotSupported, which is the thread's last error as well
 */
cudaError_t refuse(const char* function, const char* what) noexcept;

/** @brief Says on standard error, once a process, that the virtual runtime has no such function. */
void name_lacking(const char* function, const char* why) noexcept;

}  // namespace millrace::virtual_cuda
