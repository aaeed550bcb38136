#pragma once

#include "abi/cuda_runtime_api.h"

namespace millrace::virtual_cuda {

/**
 * @brief Reports on standard error that the virtual runtime lacks a function, once per function.
 * @return cudaErrorNotSupported, which also becomes the thread's last error
 */
cudaError_t refuse(const char* function, const char* what) noexcept;

/** @brief Reports on standard error that a function's name is not known, once per function. */
void name_lacking(const char* function, const char* why) noexcept;

}  // namespace millrace::virtual_cuda
