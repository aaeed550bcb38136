#pragma once

#include <cstddef>

namespace millrace::model::cuda {

/**
 * @brief The functions of cuBLAS that Millrace calls.
 *
 * The library is loaded when it is first needed. Therefore a program without matrix products does
 * not load its half gigabyte, and a build does not need its headers.
 *
 * Signatures and values are those of cublas_api.h, the same from CUDA 11 to 13: handles are
 * pointers, enumerations and statuses ints, 0 is success.
 */
struct BlasApi {
  int (*create)(void** handle);
  int (*destroy)(void* handle);
  int (*set_stream)(void* handle, void* stream);
  int (*set_workspace)(void* handle, void* workspace, std::size_t bytes);
  int (*set_math_mode)(void* handle, int mode);
  int (*set_atomics_mode)(void* handle, int mode);
  int (*sgemm)(void* handle, int transpose_a, int transpose_b, int m, int n, int k,
               const float* alpha, const float* a, int stride_a, const float* b, int stride_b,
               const float* beta, float* c, int stride_c);

  /** @throws std::runtime_error that says which library was searched for and how to get it */
  [[nodiscard]] static const BlasApi& get();
};

/**
 * @throws DeviceError if CUDA reports why the call failed (for instance a lost device); otherwise
 * std::runtime_error with the status
 */
void check_blas(int status, const char* call);

}  // namespace millrace::model::cuda
