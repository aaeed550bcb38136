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

/** @brief Numbers of calls of one function. */
struct CallCount {
  std::atomic<std::uint64_t> made{0};
  std::atomic<std::uint64_t> passed{0};   ///< allocations and frees that the runtime served
  std::atomic<std::uint64_t> refused{0};  ///< allocations and frees that failed there
};

/**
 * @brief The state of one process. Never destroyed: destructors of static objects may call CUDA.
 *
 * In a forked child of a process that has used CUDA, every call is passed on to the runtime, which
 * returns an error.
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
  /** @brief The same GPU, made if necessary; nullptr if its calls must be passed on. */
  [[nodiscard]] Gpu* serving(int ordinal);
  /** @brief The GPU whose memory has `address`; nullptr for a foreign address. */
  [[nodiscard]] Gpu* owner_of(const void* address) const;
  /** @brief The GPUs that have served requests, by ordinal. */
  [[nodiscard]] std::vector<Gpu*> gpus() const;
  /** @brief The record of the program's calls; nullptr if no GPU has served requests. Complete
   *         after `finish_recording`. */
  [[nodiscard]] Recorder* recorder() const noexcept { return recorder_.load(); }
  /** @brief Ends the recording, at the end of the process. */
  void finish_recording();
  /** @brief Removes a GPU before cudaDeviceReset, which ends its memory. The report keeps the
   *         figures. */
  void forget(int ordinal);
  /** @brief The memory that `forget` has removed, in order. */
  [[nodiscard]] std::vector<EndedMemory> ended() const;

  /** @brief After the program's cudaDeviceEnablePeerAccess: `user` may use memory of `owner`. */
  void enable_peer(int user, int owner);

  /** @name Captures into graphs @{ */
  void begin_capture(cudaStream_t stream, Gpu* gpu);
  void end_capture(cudaStream_t stream);
  [[nodiscard]] bool capturing() const noexcept { return captures_ != 0; }
  /** @} */

  /** @name Pools of the program whose requests are served here @{ */
  void add_pool(cudaMemPool_t pool, int device);
  void drop_pool(cudaMemPool_t pool);
  /** @brief Sets the bytes that a pool keeps at synchronizations. The driver model has one pool for
   *         each device, which keeps the maximum. */
  void set_kept(cudaMemPool_t pool, int device, std::uint64_t bytes);
  /** @brief The GPU of a pool; nothing if the pool's requests are passed on. */
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
 * @brief Preserves the calling thread's last CUDA error across Millrace's own calls, and clears
 *        errors of these calls.
 */
class KeepsLastError {
 public:
  KeepsLastError() noexcept : before_(real().cudaPeekAtLastError()) {}
  ~KeepsLastError();
  KeepsLastError(const KeepsLastError&) = delete;
  KeepsLastError& operator=(const KeepsLastError&) = delete;

  /** @brief An error that the runtime has lost. The thread's next query must return it. */
  static thread_local cudaError_t lost;

 private:
  const cudaError_t before_;
};

}  // namespace millrace::interpose
