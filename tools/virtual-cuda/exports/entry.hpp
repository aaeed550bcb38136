#pragma once

#include <new>
#include <utility>

#include "engine/runtime.hpp"
#include "graph/capture.hpp"

/**
 * @file
 * Exports functions of CUDA. Every call goes through `call`. It counts the call by its row in the
 * table, refuses it inside host functions and once the process's end has begun, and stores the
 * thread's last error.
 */

#define MILLRACE_EXPORT extern "C" __attribute__((visibility("default")))

/** Exports a function. Its body can use the parameters and `thread`. */
#define MILLRACE_CALL(name, parameters, ...)                                            \
  MILLRACE_EXPORT cudaError_t name parameters {                                         \
    return ::millrace::virtual_cuda::call(                                              \
        ::millrace::virtual_cuda::Function::name, __builtin_return_address(0),          \
        [&]([[maybe_unused]] ::millrace::virtual_cuda::Thread& thread) -> cudaError_t { \
          __VA_ARGS__                                                                   \
        });                                                                             \
  }

/** Exports a function and its twin for per-thread default streams. `meaning` is the difference. */
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

/** @brief The error of every call of this thread now; cudaSuccess if calls are possible. */
[[nodiscard]] inline cudaError_t refusal_of(const Thread& thread) noexcept {
  const cudaError_t process = process_refusal.load(std::memory_order_relaxed);
  return process != cudaSuccess ? process : thread.refusal;
}

/** @brief Whether a call may return the failure of a kernel that ran during the call. A launch must
 * not: on a GPU it returns before its kernel can fail. */
[[nodiscard]] constexpr bool tells_failures(Function function) noexcept {
  return function != Function::cudaLaunchKernel && function != Function::cudaLaunchKernelExC &&
         function != Function::__cudaLaunchKernel && function != Function::cudaGraphLaunch &&
         function != Function::cudaLaunchCooperativeKernel;
}

/** @param caller  return address of the call; null: the program */
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
