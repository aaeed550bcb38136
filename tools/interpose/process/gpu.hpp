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

/** @brief Millrace's handle for the program's. cudaStreamLegacy and 0 are the same stream. */
[[nodiscard]] inline StreamHandle handle_of(cudaStream_t stream) noexcept {
  return stream == cudaStreamLegacy ? StreamHandle{} : StreamHandle{stream};
}

/**
 * @brief Millrace's memory of one GPU in an unmodified program.
 *
 * ProgramMemory knows the owner of each block. Memory of cudaMalloc is freed after a
 * synchronization of the device.
 */
class Gpu {
 public:
  /** @throws DeviceError */
  Gpu(int ordinal, const Settings& settings, Recorder& recorder);

  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  [[nodiscard]] DeviceMemory& memory() noexcept { return memory_; }
  [[nodiscard]] OrderedDevice& order() const noexcept { return memory_.device(); }
  /** @brief Whether `address` is Millrace's memory. What if: whether `add_beside` got it. */
  [[nodiscard]] bool owns(const void* address) const;
  [[nodiscard]] std::size_t memory_bytes() const noexcept { return memory_bytes_; }
  /** @brief The record of the program's calls on this GPU. */
  [[nodiscard]] GpuLog& log() noexcept { return log_; }
  /** @brief Millrace's stream for a handle of the program. @throws DeviceError */
  [[nodiscard]] StreamRef known(cudaStream_t stream) const;

  /** @brief Allocates memory that all streams may use. @throws as Allocator::allocate */
  [[nodiscard]] void* allocate_for_all(std::size_t bytes);
  /** @brief Allocates memory for `stream`. @throws as Allocator::allocate */
  [[nodiscard]] void* allocate(std::size_t bytes, cudaStream_t stream);

  /** @name Requests that failed for lack of memory
   * @{ */
  struct OutOfMemory {
    std::uint64_t requests = 0, largest = 0;  ///< `largest` in bytes
  };
  void count_out_of_memory(std::size_t bytes);
  [[nodiscard]] OutOfMemory out_of_memory() const;
  /** @} */

  /** @brief Frees a block. A call of the program has proved that its uses are complete. */
  void free_completed(void* address);
  /** @brief Frees a block in the order of `stream`. @throws DeviceError */
  void free(void* address, cudaStream_t stream);

  /** @brief The free bytes that all streams could use now, and the other free bytes. */
  [[nodiscard]] UsableBytes usable_by_all() { return program_.usable_by_all(); }

  /** @brief Frees a block at the next call outside a capture, which can synchronize the device. */
  void free_later(void* address);
  /** @brief Removes and returns the blocks of `free_later`. */
  [[nodiscard]] std::vector<void*> take_later();

  /** @name What if: the program's blocks, and Millrace's blocks for the same requests
   * @{ */
  struct Beside {
    void* block = nullptr;      ///< Millrace's block, or nullptr
    std::size_t bytes = 0;      ///< requested
    std::size_t own_bytes = 0;  ///< bytes of cudaMalloc; 0 for a pool's block
  };
  /** @param own_pool  bytes that the program's pool has reserved now */
  void add_beside(void* address, const Beside& beside, std::size_t own_pool);
  /** @brief Sets Millrace's block for the program's block at `address`. */
  void set_beside(void* address, void* block);
  [[nodiscard]] std::optional<Beside> take_beside(void* address);
  /** @brief Peak of the bytes that the program's own allocators have reserved. */
  [[nodiscard]] std::size_t own_peak() const;
  /** @brief The bytes of the GPU that were available to Millrace. */
  [[nodiscard]] std::size_t available_bytes() const noexcept {
    const std::size_t most = device_.most_available();
    return most == 0 ? memory_bytes_ : most;
  }
  /** @} */

  /** @name Order that the program's own calls prove
   * `call` makes the program's call, exactly once, and returns whether it succeeded.
   * @{ */
  void synchronize(const std::function<bool()>& call);
  /** @param queries  whether the call is a query */
  void synchronize(StreamRef stream, const std::function<bool()>& call, bool queries);
  /** @brief Records a marker on the stream. @throws DeviceError */
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
