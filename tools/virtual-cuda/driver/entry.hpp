#pragma once

#include "abi/cuda_driver.h"
#include "exports/entry.hpp"
#include "table/driver.hpp"

/**
 * @file
 * How a function of the driver is exported. A call is counted by its row in table/driver.def and
 * refused where the runtime's calls are. The driver's functions are implemented with those of the
 * runtime, so that both see one machine; what a call of the runtime adds (its own count, the
 * thread's last error) is taken back.
 */

/** Exports a function that may be called before cuInit. */
#define MILLRACE_DRIVER_ANYTIME(name, parameters, ...) \
  MILLRACE_DRIVER_FUNCTION(name, name, legacy, anytime, parameters, __VA_ARGS__)
/** Exports a function that needs cuInit and no context. */
#define MILLRACE_DRIVER_CALL(name, parameters, ...) \
  MILLRACE_DRIVER_FUNCTION(name, name, legacy, driver, parameters, __VA_ARGS__)
/** Exports a function that needs a current context. */
#define MILLRACE_CONTEXT_CALL(name, parameters, ...) \
  MILLRACE_DRIVER_FUNCTION(name, name, legacy, context, parameters, __VA_ARGS__)
/** The same with its twin for per-thread default streams; `meaning` tells which it is. */
#define MILLRACE_CONTEXT_TWINS(name, suffix, parameters, ...)                    \
  MILLRACE_DRIVER_FUNCTION(name, name, legacy, context, parameters, __VA_ARGS__) \
  MILLRACE_DRIVER_FUNCTION(name, name##_##suffix, per_thread, context, parameters, __VA_ARGS__)

/** The same for a function with a parameter `stream`: only a default stream needs a context. */
#define MILLRACE_STREAM_TWINS(name, suffix, parameters, ...)            \
  MILLRACE_STREAM_FUNCTION(name, name, legacy, parameters, __VA_ARGS__) \
  MILLRACE_STREAM_FUNCTION(name, name##_##suffix, per_thread, parameters, __VA_ARGS__)
#define MILLRACE_STREAM_FUNCTION(row, name, default_stream, parameters, ...)             \
  MILLRACE_DRIVER_FUNCTION(row, name, default_stream, driver, parameters,                \
                           if (::millrace::virtual_cuda::lacks_context(                  \
                                   thread, stream)) return cudaErrorDeviceUninitialized; \
                           __VA_ARGS__)

#define MILLRACE_DRIVER_FUNCTION(row, name, default_stream, need, parameters, ...)               \
  MILLRACE_EXPORT CUresult name parameters {                                                     \
    [[maybe_unused]] constexpr auto meaning = ::millrace::virtual_cuda::Default::default_stream; \
    return ::millrace::virtual_cuda::driver_call<::millrace::virtual_cuda::Need::need>(          \
        ::millrace::virtual_cuda::DriverFunction::row, __builtin_return_address(0),              \
        [&]([[maybe_unused]] ::millrace::virtual_cuda::Thread& thread) -> cudaError_t {          \
          __VA_ARGS__                                                                            \
        });                                                                                      \
  }

/** Calls a function of the runtime, which is not counted as a call of the program. */
#define MILLRACE_AS(name, ...) \
  ::millrace::virtual_cuda::uncounted(::millrace::virtual_cuda::Function::name, name(__VA_ARGS__))

namespace millrace::virtual_cuda {

/** @brief What a function of the driver asks for: codes of CUDA say which it lacks. */
enum class Need { anytime, driver, context };

/** @brief The driver's code for an error of the runtime: they differ below 100. */
[[nodiscard]] CUresult to_driver(cudaError_t error) noexcept;

[[nodiscard]] inline cudaError_t uncounted(Function function, cudaError_t error) noexcept {
  --this_thread->calls[static_cast<std::size_t>(function)];
  return error;
}

/** @brief As that of the runtime's functions. */
[[nodiscard]] constexpr bool tells_failures(DriverFunction function) noexcept {
  return function != DriverFunction::cuLaunchKernel &&
         function != DriverFunction::cuLaunchKernelEx &&
         function != DriverFunction::cuLaunchCooperativeKernel &&
         function != DriverFunction::cuGraphLaunch;
}

/** @param caller  where the call returns to; null: to the program */
template <Need need, typename Body>
inline CUresult driver_call(DriverFunction function, const void* caller, Body body) noexcept {
  Thread* thread = this_thread;
  if (thread == nullptr) [[unlikely]] {
    // A first call of the runtime, like cuInit, initializes the driver.
    if (need != Need::anytime && the_runtime == nullptr &&
        process_refusal.load(std::memory_order_relaxed) == cudaSuccess)
      return cudaErrorInitializationError;
    thread = attach_thread();
    if (thread == nullptr) return process_refusal.load(std::memory_order_relaxed);
  }
  ++thread->calls[kFunctions + static_cast<std::size_t>(function) + counts_from(caller)];
  if (const cudaError_t refused = refusal_of(*thread); refused != cudaSuccess) return refused;
  if (need == Need::context && !thread->bound) return cudaErrorDeviceUninitialized;
  const cudaError_t last = thread->last_error;
  cudaError_t error = cudaSuccess;
  try {
    error = body(*thread);
    if (error == cudaSuccess && tells_failures(function))
      error = process_refusal.load(std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    error = cudaErrorMemoryAllocation;
  } catch (const std::exception&) {  // a call never ends the program
    error = cudaErrorUnknown;
  }
  thread->last_error = last;
  return error == cudaSuccess ? error : to_driver(error);
}

template <Need need, typename Body>
inline CUresult driver_call(DriverFunction function, Body body) noexcept {
  return driver_call<need>(function, nullptr, std::move(body));
}

/** @brief Whether the stream is a default one, of the thread's context, and the thread has none. */
[[nodiscard]] inline bool lacks_context(const Thread& thread, CUstream stream) noexcept {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2 && !thread.bound;
}

/** @brief The stream that a handle means; a handle of none is an error of the call that gets it. */
[[nodiscard]] inline cudaStream_t stream_of(CUstream handle, Default meaning) noexcept {
  CUstream_st* const found = find_stream(handle, meaning);
  return found == nullptr ? handle : found;
}

[[nodiscard]] inline void* pointer(CUdeviceptr address) noexcept {
  return reinterpret_cast<void*>(address);
}
[[nodiscard]] inline CUdeviceptr address_of(const void* pointer) noexcept {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
/** @brief Calls `get(void**)` and gives what it found as an address. */
template <typename Get>
[[nodiscard]] inline cudaError_t give_address(CUdeviceptr* out, Get get) {
  if (out == nullptr) return cudaErrorInvalidValue;
  void* found = nullptr;
  const cudaError_t error = get(&found);
  if (error == cudaSuccess) *out = address_of(found);
  return error;
}

}  // namespace millrace::virtual_cuda
