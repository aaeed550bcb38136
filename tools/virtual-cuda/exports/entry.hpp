#pragma once

#include <new>
#include <utility>

#include "engine/runtime.hpp"
#include "graph/capture.hpp"

/**
 * @file
 * How a function of CUDA is exported: every call goes through `call`, which counts it by its row in
 * the table, refuses it inside host functions and after the process's end began, and keeps the
 * thread's last error.
 */

#define MILLRACE_EXPORT extern "C" __attribute__((visibility("default")))

/** Exports a function. Its body sees the parameters and `thread`. */
#define MILLRACE_CALL(name, parameters, ...)                                            \
  MILLRACE_EXPORT cudaError_t name parameters {                                         \
    return ::millrace::virtual_cuda::call(                                              \
        ::millrace::virtual_cuda::Function::name, __builtin_return_address(0),          \
        [&]([[maybe_unused]] ::millrace::virtual_cuda::Thread& thread) -> cudaError_t { \
          __VA_ARGS__                                                                   \
        });                                                                             \
  }

/** Exports a function and its twin for per-thread default streams; `meaning` tells which it is. */
#define MILLRACE_TWINS(name, suffix, parameters, ...)        \
  MILLRACE_TWIN(name, name, legacy, parameters, __VA_ARGS__) \
  MILLRACE_TWIN(name, name##_##suffix, per_thread, parameters, __VA_ARGS__)
#define MILLRACE_TWIN(row, name, default_stream, parameters, ...)                       \
  MILLRACE_EXPORT cudaError_t name parameters {                                         \
    constexpr auto meaning = ::millrace::virtual_cuda::Default::default_stream;         \
    return ::millrace::virtual_cuda::call(                                              \
        ::millrace::virtual_cuda::Function::row, __builtin_return_address(0),           \
        [&]([[maybe_unused]] ::millrace::virtual_cuda::Thread& thread) -> cudaError_t { \
          __VA_ARGS__                                                                   \
        });                                                                             \
  }

namespace millrace::virtual_cuda {

/** @brief Why the process or this thread can make no call now. */
[[nodiscard]] inline cudaError_t refusal_of(const Thread& thread) noexcept {
  const cudaError_t process = process_refusal.load(std::memory_order_relaxed);
  return process != cudaSuccess ? process : thread.refusal;
}

/** @brief Whether the call may end with the failure of a kernel that ran meanwhile. A launch may
 * not: it returns before its kernel has failed. */
[[nodiscard]] constexpr bool tells_failures(Function function) noexcept {
  return function != Function::cudaLaunchKernel && function != Function::cudaLaunchKernelExC &&
         function != Function::__cudaLaunchKernel && function != Function::cudaGraphLaunch &&
         function != Function::cudaLaunchCooperativeKernel;
}

/** @param caller  where the call returns to; null: to the program */
template <typename Body>
inline cudaError_t call(Function function, const void* caller, Body body) noexcept {
  Thread* thread = this_thread;
  if (thread == nullptr) [[unlikely]] {
    thread = attach_thread();
    if (thread == nullptr) return process_refusal.load(std::memory_order_relaxed);
  }
  ++thread->calls[static_cast<std::size_t>(function) + counts_from(caller)];
  cudaError_t error = refusal_of(*thread);
  if (error == cudaSuccess) [[likely]] {
    try {
      error = body(*thread);
      if (error == cudaSuccess && tells_failures(function)) [[likely]]
        error = process_refusal.load(std::memory_order_relaxed);
    } catch (const std::bad_alloc&) {
      error = cudaErrorMemoryAllocation;
    }
  }
  if (error != cudaSuccess) [[unlikely]]
    thread->last_error = error;
  return error;
}

template <typename Body>
inline cudaError_t call(Function function, Body body) noexcept {
  return call(function, nullptr, std::move(body));
}

[[nodiscard]] inline Lock lock_engine() { return Lock{runtime().engine.mutex()}; }

[[nodiscard]] inline bool is_gpu(int device) noexcept {
  return device >= 0 && static_cast<std::size_t>(device) < runtime().gpus.size();
}

}  // namespace millrace::virtual_cuda
