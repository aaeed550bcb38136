#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <sstream>
#include <string>

#include "millrace/device/error.hpp"

namespace millrace::cuda {

/**
 * @brief Returns the kind of an error of the runtime or the driver, which use the same numbers
 *        since CUDA 10.1.
 */
[[nodiscard]] ErrorCode classify(int error) noexcept;

/** @brief Describes an error: "out of memory (cudaErrorMemoryAllocation)". */
[[nodiscard]] std::string describe(cudaError_t error);
[[nodiscard]] std::string describe(CUresult error);

/** @brief Formats a call as in source code, for messages. */
template <typename... Arguments>
[[nodiscard]] std::string written(const char* call, const Arguments&... arguments) {
  std::ostringstream text;
  [[maybe_unused]] const char* separator = "(";
  text << call;
  ((text << separator << arguments, separator = ", "), ...);
  text << (sizeof...(arguments) == 0 ? "()" : ")");
  return text.str();
}

/**
 * @brief Clears the thread's error and throws it as a DeviceError. A sticky error cannot be
 *        cleared.
 */
[[noreturn]] void fail(cudaError_t error, const std::string& call);
[[noreturn]] void fail(CUresult error, const std::string& call);

/** @throws DeviceError with the call and its arguments, unless `result` is success */
template <typename Result, typename... Arguments>
void check(Result result, const char* call, const Arguments&... arguments) {
  if (result == Result{}) [[likely]]
    return;
  fail(result, written(call, arguments...));
}

/**
 * @brief Does the same as `check`, for calls that release. Once the process ends and CUDA was
 *        unloaded, nothing is left to release, so a failure is not an error.
 */
template <typename... Arguments>
void check_released(cudaError_t result, const char* call, const Arguments&... arguments) {
  if (result != cudaErrorCudartUnloading) check(result, call, arguments...);
}

/**
 * @brief Returns the answer of a query: false while the work is not complete.
 * @throws DeviceError like `check` for any other error
 */
[[nodiscard]] inline bool ready(cudaError_t result, const char* call, const void* handle) {
  if (result == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check(result, call, handle);
  return true;
}

/**
 * @brief Ignores a result, for destructors, and clears the thread's error so that the next caller
 *        does not get it.
 */
inline void quietly(cudaError_t result) noexcept {
  if (result != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace millrace::cuda
