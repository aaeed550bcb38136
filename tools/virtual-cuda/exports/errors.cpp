#include <cctype>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "exports/entry.hpp"

namespace millrace::virtual_cuda {
namespace {

struct ErrorText {
  const char* name;
  std::string text;
};

/** Texts that programs search for. The texts of other errors are made from their names. */
const char* known_text(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorCudartUnloading:
      return "driver shutting down";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidSymbol:
      return "invalid device symbol";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorNotPermitted:
      return "operation not permitted";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    default:
      return nullptr;
  }
}

/** Turns "cudaErrorInvalidResourceHandle" into "invalid resource handle". */
std::string words(std::string_view name) {
  constexpr std::string_view kPrefix = "cudaError";
  std::string text;
  for (const char letter : name.substr(kPrefix.size())) {
    if (std::isupper(static_cast<unsigned char>(letter)) != 0 && !text.empty()) text += ' ';
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return text;
}

const ErrorText& text_of(cudaError_t error) {
  static const auto* const all = [] {
    auto* const texts = new std::map<int, ErrorText>;
#define MILLRACE_CUDA_ERROR(name, value) \
  (*texts)[value] = {#name, known_text(name) != nullptr ? known_text(name) : words(#name)};
#include "abi/errors.def"
#undef MILLRACE_CUDA_ERROR
    return texts;
  }();
  static const auto* const unknown =
      new ErrorText{"unrecognized error code", "unrecognized error code"};
  const auto entry = all->find(error);
  return entry == all->end() ? *unknown : entry->second;
}

// Errors may be read everywhere, even in host functions and at exit.
Thread* thread_for_reading() { return this_thread != nullptr ? this_thread : attach_thread(); }

cudaError_t last_error(Function function, const void* caller, bool clear) {
  Thread* const thread = thread_for_reading();
  if (thread == nullptr) return process_refusal.load(std::memory_order_relaxed);
  ++thread->calls[static_cast<std::size_t>(function) + counts_from(caller)];
  const cudaError_t process = process_refusal.load(std::memory_order_relaxed);
  if (process != cudaSuccess) return process;
  const cudaError_t error = thread->last_error;
  if (clear) thread->last_error = cudaSuccess;
  return error;
}

}  // namespace
}  // namespace millrace::virtual_cuda

using namespace millrace::virtual_cuda;

MILLRACE_EXPORT cudaError_t cudaGetLastError() {
  return last_error(Function::cudaGetLastError, __builtin_return_address(0), true);
}
MILLRACE_EXPORT cudaError_t cudaPeekAtLastError() {
  return last_error(Function::cudaPeekAtLastError, __builtin_return_address(0), false);
}
MILLRACE_EXPORT const char* cudaGetErrorName(cudaError_t error) { return text_of(error).name; }
MILLRACE_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  return text_of(error).text.c_str();
}
