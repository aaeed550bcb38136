#pragma once

#include "abi/cuda_driver.h"
#include "exports/entry.hpp"
#include "table/driver.hpp"

/**
 * @file
 * Exports functions of the driver. A call is counted by its row in table/driver.def and refused in
 * the same cases as the runtime's calls. The driver's functions call the runtime's, so that both
 * use one machine. The side effects of these inner calls (their count, the thread's last error) are
 * undone.
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
/** The same with its twin for per-thread default streams. `meaning` is the difference. */
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

/** Calls a function of the runtime without counting it as a call of the program. */
#define MILLRACE_AS(name, ...) \
  ::millrace::virtual_cuda::uncounted(::millrace::virtual_cuda::Function::name, name(__VA_ARGS__))

namespace millrace::virtual_cuda {

/** @brief The state that a function of the driver needs. Each missing one has an error of CUDA. */
enum class Need { anytime, driver, context };

/** @brief The driver's code for an error of the runtime. Codes below 100 can differ. */
[[nodiscard]] CUresult to_driver(cudaError_t error) noexcept;

[[nodiscard]] inline cudaError_t uncounted(Function function, cudaError_t error) noexcept {
  --this_thread->calls[static_cast<std::size_t>(function)];
  return error;
}

/** @brief As `tells_failures` for the runtime's functions. */
[[nodiscard]] constexpr bool tells_failures(DriverFunction function) noexcept {
  return function != DriverFunction::cuLaunchKernel &&
         function != DriverFunction::cuLaunchKernelEx &&
         function != DriverFunction::cuLaunchCooperativeKernel &&
         function != DriverFunction::cuGraphLaunch;
}

/** @param caller  return address of the call; null: the program */
template <Need need, typename Body>
inline CUresult driver_call(DriverFunction function, const void* caller, Body body) noexcept {
  Thread* thread = this_thread;
  if (thread == nullptr) [[unlikely]] {
    // The first call of the runtime initializes the driver, as cuInit does.
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
  } catch (const std::exception&) {  // a call must not end the program
    error = cudaErrorUnknown;
  }
  thread->last_error = last;
  return error == cudaSuccess ? error : to_driver(error);
}

template <Need need, typename Body>
inline CUresult driver_call(DriverFunction function, Body body) noexcept {
  return driver_call<need>(function, nullptr, std::move(body));
}

/** @brief Whether `stream` is a default stream although the thread has no context. */
[[nodiscard]] inline bool lacks_context(const Thread& thread, CUstream stream) noexcept {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2 && !thread.bound;
}

/** @brief The stream that a handle means. An invalid handle is returned as it is, because the
 *         called function reports the error. */
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
/** @brief Calls `get(void**)` and converts its result to an address. */
template <typename Get>
[[nodiscard]] inline cudaError_t give_address(CUdeviceptr* out, Get get) {
  if (out == nullptr) return cudaErrorInvalidValue;
  void* found = nullptr;
  const cudaError_t error = get(&found);
  if (error == cudaSuccess) *out = address_of(found);
  return error;
}

}  // namespace millrace::virtual_cuda
