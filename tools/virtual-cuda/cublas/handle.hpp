#pragma once

#include "abi/cuda_runtime_api.h"

#define MILLRACE_EXPORT extern "C" __attribute__((visibility("default")))

namespace millrace::virtual_cublas {

/** @brief The values of cublasStatus_t that this library uses. */
enum class Status : int {
  success = 0,
  not_initialized = 1,
  invalid_value = 7,
  failed = 13,
  not_supported = 15,
};

/** @brief cublasOperation_t. */
enum class Transposed : int { no = 0, yes = 1, conjugate = 2 };

/** @brief The object that a cublasHandle_t points to. */
struct Handle {
  cudaStream_t stream = nullptr;
  int math_mode = 0;
  int atomics_mode = 0;
  int pointer_mode = 0;  ///< 0: scalar arguments and results are on the host
  int multiprocessors = 0;
};

}  // namespace millrace::virtual_cublas
