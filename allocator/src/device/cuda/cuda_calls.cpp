#include "millrace/device/cuda_calls.hpp"

#include <map>
#include <mutex>

#include "device/cuda/context.hpp"
#include "device/cuda/error.hpp"

namespace millrace {
namespace {

// Retains each context only once, because each retain counts.
CUcontext context_of(int ordinal) {
  static std::mutex mutex;
  static std::map<int, CUcontext> contexts;
  const std::lock_guard lock{mutex};
  if (const auto known = contexts.find(ordinal); known != contexts.end()) return known->second;
  cuda::check_ordinal(ordinal);
  return contexts[ordinal] = cuda::primary_context(ordinal);
}

}  // namespace

CurrentGpu::CurrentGpu(int ordinal) {
  const CUcontext context = context_of(ordinal);
  CUcontext previous = nullptr;
  cuda::check(cuda::driver().cuCtxGetCurrent(&previous), "cuCtxGetCurrent");
  if (previous == context) return;
  cuda::check(cuda::driver().cuCtxSetCurrent(context), "cuCtxSetCurrent", context);
  previous_ = previous;
  changed_ = true;
}

CurrentGpu::~CurrentGpu() {
  if (changed_) cuda::driver().cuCtxSetCurrent(static_cast<CUcontext>(previous_));
}

void throw_cuda_error(int error, const char* call) {
  cuda::fail(static_cast<cudaError_t>(error), call);
}

}  // namespace millrace
