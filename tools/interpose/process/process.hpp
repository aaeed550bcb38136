#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "process/events.hpp"
#include "process/gpu.hpp"
#include "process/gpu_figures.hpp"
#include "process/recorder.hpp"
#include "process/settings.hpp"
#include "runtime/real.hpp"

namespace millrace::interpose {

/** @brief Calls of one function. */
struct CallCount {
  std::atomic<std::uint64_t> made{0};
  std::atomic<std::uint64_t> passed{0};   ///< allocations and frees that the runtime served
  std::atomic<std::uint64_t> refused{0};  ///< those that failed there, too
};

/**
 * @brief This library in one process. Never destroyed: destructors of static objects call CUDA.
 *
 * A forked child of a process that has used CUDA has none; there every call is passed on to the
 * runtime, which says so.
 */
class Process {
 public:
  [[nodiscard]] static Process& get() noexcept;

  const Settings settings;
  Events events;
  std::array<CallCount, kFunctions> calls;

  [[nodiscard]] bool is_child() const noexcept { return is_child_.load(std::memory_order_relaxed); }

  /** @brief Called before the first GPU of this process serves a request. */
  static inline void (*before_service)() = nullptr;

  /** @brief Notes that the calling thread asks for memory. */
  void note_allocating_thread() noexcept {
    thread_local bool known = false;
    if (known) return;
    known = true;
    allocating_threads_.fetch_add(1, std::memory_order_relaxed);
  }
  [[nodiscard]] unsigned allocating_threads() const noexcept { return allocating_threads_; }

  /** @brief A GPU that has served a request; nullptr if it has not. */
  [[nodiscard]] Gpu* find(int ordinal) const noexcept;
  /** @brief The same, made if need be; nullptr if calls there have to be passed on. */
  [[nodiscard]] Gpu* serving(int ordinal);
  /** @brief The one that gave `address`; nullptr for a foreign address. */
  [[nodiscard]] Gpu* owner_of(const void* address) const;
  /** @brief Those that have served, with their ordinals in order. */
  [[nodiscard]] std::vector<Gpu*> gpus() const;
  /** @brief What the GPUs' programs did; nullptr if no GPU has served. Complete after
   *         `finish_recording`. */
  [[nodiscard]] Recorder* recorder() const noexcept { return recorder_.load(); }
  /** @brief When the process ends: nothing is recorded any more. */
  void finish_recording();
  /** @brief Before cudaDeviceReset: its memory goes with the GPU's context. The report keeps what
   *         it was. */
  void forget(int ordinal);
  /** @brief What was forgotten, in order. */
  [[nodiscard]] std::vector<EndedMemory> ended() const;

  /** @brief The program's cudaDeviceEnablePeerAccess: work on `user` uses memory of `owner`. */
  void enable_peer(int user, int owner);

  /** @name Captures into graphs @{ */
  void begin_capture(cudaStream_t stream, Gpu* gpu);
  void end_capture(cudaStream_t stream);
  [[nodiscard]] bool capturing() const noexcept { return captures_ != 0; }
  /** @} */

  /** @name Pools of the program's, whose requests are served here @{ */
  void add_pool(cudaMemPool_t pool, int device);
  void drop_pool(cudaMemPool_t pool);
  /** @brief What the pool keeps at synchronizations. The driver model has one pool for each device:
   *         it keeps what the one that keeps most does. */
  void set_kept(cudaMemPool_t pool, int device, std::uint64_t bytes);
  /** @brief The GPU whose memory the pool is; nothing if its requests are passed on. */
  [[nodiscard]] std::optional<int> served_pool(cudaMemPool_t pool) const;
  /** @} */

 private:
  static constexpr int kMostGpus = 64;
  static constexpr std::size_t kMostEnded = 1'000;

  Process();
  Gpu* make(int ordinal);
  [[nodiscard]] std::uint64_t most_kept(int device) const;

  std::array<std::atomic<Gpu*>, kMostGpus> gpus_{};
  std::atomic<Recorder*> recorder_{nullptr};
  std::atomic<bool> is_child_{false};
  std::atomic<bool> has_served_{false};
  std::atomic<int> captures_{0}, unannounced_{0};
  std::atomic<unsigned> allocating_threads_{0};

  mutable std::mutex mutex_;
  std::unordered_set<int> refused_;  // GPUs that could not be opened
  std::vector<std::pair<int, int>> peers_;
  struct Capture {
    Gpu* gpu = nullptr;
    std::optional<StreamRef> announced;
  };
  std::unordered_multimap<cudaStream_t, Capture> capture_of_;
  std::unordered_map<cudaMemPool_t, int> pools_;
  struct Kept {
    int device = 0;
    std::uint64_t bytes = 0;
  };
  std::unordered_map<cudaMemPool_t, Kept> kept_;  // release thresholds
  std::vector<EndedMemory> ended_;
};

/**
 * @brief Keeps the calling thread's last CUDA error as the program left it: Millrace's own calls
 *        change it, and clear what they caused.
 */
class KeepsLastError {
 public:
  KeepsLastError() noexcept : before_(real().cudaPeekAtLastError()) {}
  ~KeepsLastError();
  KeepsLastError(const KeepsLastError&) = delete;
  KeepsLastError& operator=(const KeepsLastError&) = delete;

  /** @brief An error that the runtime has lost, and that the thread's next look has to find. */
  static thread_local cudaError_t lost;

 private:
  const cudaError_t before_;
};

}  // namespace millrace::interpose
