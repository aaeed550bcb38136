#pragma once

#include "test/virtual_cuda/laws/gpu.hpp"
#if MILLRACE_TEST_TOOLKIT
#include <cuda.h>
#else
#include "abi/cuda_driver.h"
#endif

namespace millrace::test {

/// The driver's function of this name, with the parameters of a version of CUDA. Null if that
/// version has no such function.
inline void* driver_function(const char* name, unsigned version = 13000,
                             unsigned long long flags = 0, int* status = nullptr) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  CUDA_OK(cudaGetDriverEntryPointByVersion(name, &function, version, flags, &found));
  if (status != nullptr) *status = static_cast<int>(found);
  return function;
}

/// Calls the driver's function of this name in CUDA 13. The types of the arguments must be those of
/// its parameters.
/// @return the code of the result
template <typename... Parameters>
int driver(const char* name, Parameters... arguments) {
  void* const function = driver_function(name);
  CAPTURE(name);
  REQUIRE(function != nullptr);
  return reinterpret_cast<int (*)(Parameters...)>(function)(arguments...);
}

#define DRIVER_OK(...) REQUIRE(driver(__VA_ARGS__) == 0)

/// Codes of CUresult.
enum : int {
  kInvalidValue = 1,
  kNotInitialized = 3,
  kInvalidContext = 201,
  kContextIsDestroyed = 709,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kNotSupported = 801,
};

inline CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace millrace::test
