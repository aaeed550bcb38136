// Return the calling thread's last error as it would be without Millrace's own calls.

#include <utility>

#include "exports/entry.hpp"

using namespace millrace::interpose;

MILLRACE_EXPORT cudaError_t cudaGetLastError() {
  return entry(Function::cudaGetLastError, [](const Runtime& runtime, Process&) {
    const cudaError_t error = runtime.cudaGetLastError();
    const cudaError_t lost = std::exchange(KeepsLastError::lost, cudaSuccess);
    return error == cudaSuccess ? lost : error;
  });
}

MILLRACE_EXPORT cudaError_t cudaPeekAtLastError() {
  return entry(Function::cudaPeekAtLastError, [](const Runtime& runtime, Process&) {
    const cudaError_t error = runtime.cudaPeekAtLastError();
    return error == cudaSuccess ? KeepsLastError::lost : error;
  });
}
