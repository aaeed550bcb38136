#pragma once

#include <cuda_runtime_api.h>

#include "millrace/device/error.hpp"

namespace millrace::model::cuda {

/** @throws DeviceError that names the call, and clears the thread's error, unless it succeeded */
inline void require(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  const ErrorCode code = result == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory
                         : result == cudaErrorInvalidValue   ? ErrorCode::invalid_argument
                                                             : ErrorCode::unknown;
  throw DeviceError(code, call, cudaGetErrorString(result));
}

}  // namespace millrace::model::cuda
