#pragma once

#include "exports/entry.hpp"

namespace millrace::interpose {

/**
 * @brief Returns Millrace's free memory to the driver.
 *
 * It synchronizes the devices first, so it does nothing while a stream is captured.
 * @return whether memory was returned
 */
[[nodiscard]] bool give_back(const Runtime& runtime, Process& process);

/**
 * @brief Makes a call that the runtime serves. If it fails for lack of memory and Millrace can
 * return some, makes it again: without Millrace, the call would have had that memory.
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
