#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "abi/cuda_runtime_api.h"
#include "table/driver.hpp"
#include "table/functions.hpp"

struct CUctx_st;
struct CUstream_st;

namespace millrace::virtual_cuda {

/** @brief The number of functions. Those of the runtime come first, then those of the driver. */
inline constexpr std::size_t kAllFunctions = kFunctions + kDriverFunctions;

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

/** @brief What the runtime keeps for each host thread. */
struct Thread {
  cudaError_t last_error = cudaSuccess;
  cudaError_t refusal = cudaSuccess;  ///< inside a host function: the answer to every call
  int device = 0;
  bool bound = false;           ///< a context is current for the driver's functions
  CUctx_st* context = nullptr;  ///< the current one, if it is not the device's primary context
  std::vector<CUctx_st*> contexts_below;  ///< the rest of the driver's stack
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  std::uint64_t id = 0;
  std::uint32_t callback = ~std::uint32_t{0};     ///< Operation::callback of its host function
  std::vector<CUstream_st*> per_thread_streams;   ///< by device; null until the first use
  std::vector<CallConfiguration> configurations;  ///< of <<<>>> launches in progress
  std::uint64_t calls[2 * kAllFunctions] = {};    ///< calls of the program, then of Millrace
};

/** @brief Null in a thread that has made no call, and in a forked child. */
extern constinit thread_local Thread* this_thread __attribute__((tls_model("initial-exec")));
/** @brief The answer to every call of the process: after a fork, at exit, on a lost device. */
extern std::atomic<cudaError_t> process_refusal;

/**
 * @brief Makes the calling thread's record, and the runtime at the process's first call.
 * @return null if no call is possible; `process_refusal` has the reason
 */
[[nodiscard]] Thread* attach_thread() noexcept;

/** @brief Marks the calling thread as inside a host function, for the object's lifetime. */
class InHostFunction {
 public:
  /** @param callback  the checker's number for the call */
  explicit InHostFunction(std::uint32_t callback) noexcept;
  ~InHostFunction();
  InHostFunction(const InHostFunction&) = delete;
  InHostFunction& operator=(const InHostFunction&) = delete;
};

/** @brief The code of Millrace's allocator, whose calls are counted separately. It is a library
 * `libmillrace*` that was loaded before the first call; empty if no such library was loaded. */
struct CodeRange {
  std::uintptr_t begin = 0;
  std::uintptr_t bytes = 0;
};
extern CodeRange code_of_millrace;

/** @brief The offset in Thread::calls for a call: 0 for the program, kAllFunctions for Millrace.
 *  @param caller  return address of the call */
[[nodiscard]] inline std::size_t counts_from(const void* caller) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  return address - code_of_millrace.begin < code_of_millrace.bytes ? kAllFunctions : 0;
}

/** @brief Numbers of calls, as in Thread::calls, of all threads, including ended ones. */
[[nodiscard]] std::vector<std::uint64_t> calls_of_all_threads();

}  // namespace millrace::virtual_cuda
