#pragma once

#include "exports/entry.hpp"

namespace millrace::interpose {

/**
 * @brief Gives Millrace's free memory back to the driver.
 *
 * Synchronizes the devices first, so nothing is given back while a stream is captured.
 * @return whether there was any
 */
[[nodiscard]] bool give_back(const Runtime& runtime, Process& process);

/**
 * @brief Makes a call that the runtime serves, and makes it again if it had no memory while
 * Millrace kept some free: the program's own allocator would have had it.
 */
template <typename Call>
cudaError_t with_memory_given_back(const Runtime& runtime, Process& process, Call call) {
  const cudaError_t before = runtime.cudaPeekAtLastError();
  const cudaError_t error = call();
  if (error != cudaErrorMemoryAllocation || !give_back(runtime, process)) return error;
  static_cast<void>(runtime.cudaGetLastError());  // the program sees one call
  if (before != cudaSuccess) KeepsLastError::lost = before;
  return call();
}

}  // namespace millrace::interpose
