#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "millrace/device/error.hpp"

namespace millrace::cuda {

/** @throws DeviceError that names what failed, unless it did not; the thread's error is cleared */
inline void check_launch(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw DeviceError{ErrorCode::unknown, what,
                    std::string{cudaGetErrorString(error)} + " (" + cudaGetErrorName(error) + ")"};
}

}  // namespace millrace::cuda
