#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <sstream>
#include <string>

#include "millrace/device/error.hpp"

namespace millrace::cuda {

/** @brief Of either API: since CUDA 10.1 the two number their errors alike. */
[[nodiscard]] ErrorCode classify(int error) noexcept;

/** @brief "out of memory (cudaErrorMemoryAllocation)" */
[[nodiscard]] std::string describe(cudaError_t error);
[[nodiscard]] std::string describe(CUresult error);

/** @brief The call as it would be written, for messages. */
template <typename... Arguments>
[[nodiscard]] std::string written(const char* call, const Arguments&... arguments) {
  std::ostringstream text;
  [[maybe_unused]] const char* separator = "(";
  text << call;
  ((text << separator << arguments, separator = ", "), ...);
  text << (sizeof...(arguments) == 0 ? "()" : ")");
  return text.str();
}

/** @brief Clears the thread's error and throws what was said. A sticky error clears in no way. */
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
 * @brief As `check`, for calls that release: once the process is ending and CUDA has gone there is
 *        nothing left to release, and that is no error.
 */
template <typename... Arguments>
void check_released(cudaError_t result, const char* call, const Arguments&... arguments) {
  if (result != cudaErrorCudartUnloading) check(result, call, arguments...);
}

/**
 * @brief What a query says: false while the device is not through.
 * @throws DeviceError as `check` for any other error
 */
[[nodiscard]] inline bool ready(cudaError_t result, const char* call, const void* handle) {
  if (result == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check(result, call, handle);
  return true;
}

/** @brief For destructors: whatever was said is forgotten, and not left for the next caller. */
inline void quietly(cudaError_t result) noexcept {
  if (result != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace millrace::cuda
