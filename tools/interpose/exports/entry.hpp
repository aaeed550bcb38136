#pragma once

#include <exception>

#include "process/process.hpp"

/// @file
/// The frame of all functions that are taken over: it counts the call, and no exception leaves it.
/// A request that cannot be served is passed on to the runtime with the program's own arguments, so
/// that the program gets the runtime's own errors.

#define MILLRACE_EXPORT extern "C" __attribute__((visibility("default")))

namespace millrace::interpose {

template <typename Body>
cudaError_t entry(Function function, Body body) noexcept {
  const Runtime& runtime = real();
  if (runtime.major == 0) return cudaErrorSharedObjectInitFailed;
  try {
    Process& process = Process::get();
    process.calls[static_cast<std::size_t>(function)].made.fetch_add(1, std::memory_order_relaxed);
    return body(runtime, process);
  } catch (const std::exception&) {  // no memory for Millrace's own data
    return cudaErrorMemoryAllocation;
  }
}

/** @brief Counts a request or a free that the runtime has answered. */
inline void count_answer(Process& process, Function function, cudaError_t error) noexcept {
  CallCount& count = process.calls[static_cast<std::size_t>(function)];
  (error == cudaSuccess ? count.passed : count.refused).fetch_add(1, std::memory_order_relaxed);
}

/** @brief The stream in code compiled with --default-stream per-thread, where 0 is per-thread. */
[[nodiscard]] inline cudaStream_t per_thread(cudaStream_t stream) noexcept {
  return stream == nullptr ? cudaStreamPerThread : stream;
}

[[nodiscard]] inline int current_device() noexcept {
  int device = -1;
  return real().cudaGetDevice(&device) == cudaSuccess ? device : -1;
}

/** @brief The GPU of a stream; -1 if the stream is captured, or an old runtime cannot report it. */
[[nodiscard]] int device_of(cudaStream_t stream) noexcept;

/** @brief Whether the stream is captured, or a capture forbids work on it. */
[[nodiscard]] bool is_captured(cudaStream_t stream) noexcept;

/** @brief Makes `device` current for the object's lifetime. */
class CurrentGpu {
 public:
  explicit CurrentGpu(int device) noexcept
      : before_(current_device()), changed_(before_ != device) {
    if (changed_) static_cast<void>(real().cudaSetDevice(device));
  }
  ~CurrentGpu() {
    if (changed_) static_cast<void>(real().cudaSetDevice(before_));
  }
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;

 private:
  const int before_;
  const bool changed_;
};

/** @brief cudaFree, for any address. The driver's cuMemFree calls it, too. */
[[nodiscard]] cudaError_t release(const Runtime& runtime, Process& process, void* address);
/** @brief cudaFreeAsync. */
[[nodiscard]] cudaError_t release(const Runtime& runtime, Process& process, void* address,
                                  cudaStream_t stream);

/** @brief Begins a capture. `call` makes the runtime's or the driver's call. After its error, the
 *         capture is forgotten. */
template <typename Call>
auto begin_capture(Process& process, cudaStream_t stream, Call call) {
  process.begin_capture(stream, process.find(device_of(stream)));
  const auto error = call();
  if (error != decltype(error){}) process.end_capture(stream);
  return error;
}

/** @brief Synchronizes the calling thread's current device. `gpu` notes the order; may be null. */
[[nodiscard]] cudaError_t synchronize_device(const Runtime& runtime, Gpu* gpu);

/** @brief Frees the blocks whose free was postponed during a capture. */
void settle(const Runtime& runtime, Process& process, Gpu& gpu);

}  // namespace millrace::interpose
