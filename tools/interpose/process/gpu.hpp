#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "millrace/interop/device_memory.hpp"
#include "millrace/interop/program_memory.hpp"
#include "process/gpu_log.hpp"
#include "process/program_device.hpp"
#include "process/settings.hpp"

namespace millrace::interpose {

/** @brief A handle of the program's as Millrace's: what cudaStreamLegacy and 0 are is one stream.
 */
[[nodiscard]] inline StreamHandle handle_of(cudaStream_t stream) noexcept {
  return stream == cudaStreamLegacy ? StreamHandle{} : StreamHandle{stream};
}

/**
 * @brief Millrace's memory of one GPU in a program that knows nothing of it.
 *
 * ProgramMemory says whose memory a block is. The free of cudaMalloc's memory comes after a
 * synchronization of the device.
 */
class Gpu {
 public:
  /** @throws DeviceError */
  Gpu(int ordinal, const Settings& settings, Recorder& recorder);

  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  [[nodiscard]] DeviceMemory& memory() noexcept { return memory_; }
  [[nodiscard]] OrderedDevice& order() const noexcept { return memory_.device(); }
  /** @brief Whether `address` is memory of Millrace's, or stands for some. */
  [[nodiscard]] bool owns(const void* address) const;
  [[nodiscard]] std::size_t memory_bytes() const noexcept { return memory_bytes_; }
  /** @brief What the program did here. */
  [[nodiscard]] GpuLog& log() noexcept { return log_; }
  /** @brief The stream that a handle of the program stands for. @throws DeviceError */
  [[nodiscard]] StreamRef known(cudaStream_t stream) const;

  /** @brief Memory that every stream may use from now on. @throws as Allocator::allocate */
  [[nodiscard]] void* allocate_for_all(std::size_t bytes);
  /** @brief Memory for `stream`. @throws as Allocator::allocate */
  [[nodiscard]] void* allocate(std::size_t bytes, cudaStream_t stream);

  /** @name Requests for which there was no memory
   * @{ */
  struct OutOfMemory {
    std::uint64_t requests = 0, largest = 0;  ///< `largest` in bytes
  };
  void count_out_of_memory(std::size_t bytes);
  [[nodiscard]] OutOfMemory out_of_memory() const;
  /** @} */

  /** @brief Frees a block whose uses are complete, which a call of the program's has shown. */
  void free_completed(void* address);
  /** @brief Frees a block in the order of `stream`. @throws DeviceError */
  void free(void* address, cudaStream_t stream);

  /** @brief The free bytes that every stream could have now, and those that could not. */
  [[nodiscard]] UsableBytes usable_by_all() { return program_.usable_by_all(); }

  /** @brief Frees it at the next call outside a capture: the device cannot be synchronized now. */
  void free_later(void* address);
  /** @brief The blocks that `free_later` was given, once. */
  [[nodiscard]] std::vector<void*> take_later();

  /** @name What if: the program's own block, and the one that Millrace would have given
   * @{ */
  struct Beside {
    void* block = nullptr;      ///< nullptr: Millrace has none
    std::size_t bytes = 0;      ///< requested
    std::size_t own_bytes = 0;  ///< of cudaMalloc; 0 for a pool's
  };
  /** @param own_pool  bytes that the program's pool has reserved now */
  void add_beside(void* address, const Beside& beside, std::size_t own_pool);
  /** @brief The block that Millrace would have given for the program's block at `address`. */
  void set_beside(void* address, void* block);
  [[nodiscard]] std::optional<Beside> take_beside(void* address);
  /** @brief The most that the program's own allocators had reserved at once, in bytes. */
  [[nodiscard]] std::size_t own_peak() const;
  /** @brief The bytes of the GPU that Millrace could have had. */
  [[nodiscard]] std::size_t available_bytes() const noexcept {
    const std::size_t most = device_.most_available();
    return most == 0 ? memory_bytes_ : most;
  }
  /** @} */

  /** @name What the program's own calls prove
   * `call` makes the program's call, exactly once, and returns whether it succeeded.
   * @{ */
  void synchronize(const std::function<bool()>& call);
  /** @param queries  whether the call is a query */
  void synchronize(StreamRef stream, const std::function<bool()>& call, bool queries);
  /** @brief A marker on the stream. @throws DeviceError */
  [[nodiscard]] Point mark(StreamRef stream);
  /** @brief `waiter` waits for an event that was recorded after `marker`. */
  void joined(StreamRef waiter, Point marker);
  /** @brief An event that was recorded after `marker` is complete. */
  void passed(Point marker, bool queried);
  /** @} */

  /** @brief Lets work on GPU `peer` use this memory. */
  void allow_peer(int peer);

 private:
  const int ordinal_;
  ProgramDevice device_;
  const std::size_t memory_bytes_;
  DeviceMemory memory_;
  ProgramMemory program_;
  GpuLog log_;
  mutable std::mutex mutex_;
  OutOfMemory out_of_memory_;
  std::atomic<bool> any_later_{false};
  std::vector<void*> later_;

  const bool what_if_;
  mutable std::mutex beside_mutex_;
  std::unordered_map<const void*, Beside> beside_;
  std::size_t own_now_ = 0, own_pool_ = 0, own_peak_ = 0;
};

}  // namespace millrace::interpose
