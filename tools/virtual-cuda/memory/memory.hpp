#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "abi/cuda_runtime_api.h"
#include "memory/advice.hpp"
#include "millrace/device/address_space.hpp"

struct CUmemPoolHandle_st;

namespace millrace::virtual_cuda {

/**
 * @brief The memory of the virtual GPUs, and what is known of host memory.
 *
 * Device memory is address space that the host cannot access: a dereference faults, as with a GPU.
 * Its data lie at a fixed distance, in a mapping of a file in memory that takes physical memory
 * only where it is written. The GPUs' memory comes first; address ranges that programs reserve, and
 * map pages of that memory into, come after it (class Ranges).
 */
class Memory {
 public:
  static constexpr std::size_t kAlignment = 512;

  enum class Kind { pageable, pinned, registered, managed, device };

  struct HostRange {
    std::size_t bytes = 0;
    Kind kind = Kind::pinned;
    unsigned flags = 0;
    int device = 0;
    CUmemPoolHandle_st* pool = nullptr;  ///< that cuts it into blocks
  };
  struct Range {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
  };

  /** @throws std::runtime_error if the address space cannot be reserved */
  Memory(unsigned gpus, std::size_t bytes_of_each);

  /** @brief Where the host reaches the memory at `address`. */
  [[nodiscard]] std::byte* data(const void* address) const noexcept {
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    return reinterpret_cast<std::byte*>(value - base_ < span_ ? value + span_ : value);
  }
  [[nodiscard]] bool on_device(const void* address) const noexcept {
    return reinterpret_cast<std::uintptr_t>(address) - base_ < span_;
  }
  /** @brief Whether `address` lies in the GPUs' own memory, and not in a reserved range. */
  [[nodiscard]] bool in_gpu(const void* address) const noexcept {
    return reinterpret_cast<std::uintptr_t>(address) - base_ < stride_ * spaces_.size();
  }
  /** @brief Whether `address` lies where programs reserve ranges. */
  [[nodiscard]] bool in_range(const void* address) const noexcept {
    return on_device(address) && !in_gpu(address);
  }
  /** @brief The GPU that `address`, which is `on_device`, belongs to; 0 if nothing is mapped there.
   */
  [[nodiscard]] unsigned gpu_of(const void* address) const;

  /** @brief Device memory, of any size above 0. Null if `gpu` has no hole for it. */
  [[nodiscard]] void* take(unsigned gpu, std::size_t bytes);
  /** @brief Gives back what `take` gave. @return false, and nothing has changed, if it did not */
  bool give(void* address);
  [[nodiscard]] std::size_t total() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t used(unsigned gpu) const {
    return spaces_[gpu].taken_bytes() + pages_[gpu].taken_bytes();
  }
  [[nodiscard]] std::size_t peak(unsigned gpu) const { return peaks_[gpu]; }
  /** @brief The piece from `take` that holds `address`. */
  [[nodiscard]] std::optional<Range> piece(const void* address) const;

  /** @brief Pinned or managed memory. Null without memory. */
  [[nodiscard]] void* take_host(std::size_t bytes, const HostRange& range);
  /** @return false unless `address` is the start of memory of this kind, and for this pool or none,
   *          from `take_host` */
  bool give_host(void* address, Kind kind, const CUmemPoolHandle_st* pool = nullptr);
  /** @return false if some of it is known already */
  [[nodiscard]] bool register_host(void* address, const HostRange& range);
  bool unregister_host(void* address);
  /** @brief The range that holds `address`, and its start. */
  [[nodiscard]] const HostRange* host_range(const void* address,
                                            std::uintptr_t* start = nullptr) const;
  [[nodiscard]] std::size_t pinned_bytes() const noexcept { return pinned_; }
  [[nodiscard]] std::size_t peak_pinned_bytes() const noexcept { return peak_pinned_; }

  [[nodiscard]] Kind kind_of(const void* address) const;
  [[nodiscard]] ManagedAdvice& advice() noexcept { return advice_; }

  /** @brief Where ranges may be reserved. */
  [[nodiscard]] Range range_region() const noexcept;
  /** @brief Memory of a GPU without an address, in whole pages; nothing if it is full. */
  [[nodiscard]] std::optional<std::size_t> take_pages(unsigned gpu, std::size_t bytes);
  void give_pages(unsigned gpu, std::size_t pages);
  /** @brief Shows what `take_pages` gave at `address` in that region. @return false: no memory */
  [[nodiscard]] bool show(void* address, unsigned gpu, std::size_t pages, std::size_t bytes);
  void hide(void* address, std::size_t bytes);

 private:
  std::uintptr_t base_ = 0;
  std::size_t span_ = 0;  // of all GPUs and of ranges; the data follow
  std::size_t stride_ = 0;
  std::size_t bytes_ = 0;
  int file_ = -1;
  struct Shown {
    std::size_t bytes;
    unsigned gpu;
  };
  std::map<std::uintptr_t, Shown> shown_;  // what is shown in ranges
  /// Offset in the file of what has no address: after the memory that has.
  [[nodiscard]] std::size_t file_offset(unsigned gpu, std::size_t pages) const noexcept {
    return stride_ * (spaces_.size() + gpu) + pages;
  }
  void return_to_system(std::size_t offset, std::size_t bytes) const;

  std::vector<simulation::AddressSpace> spaces_;
  std::vector<simulation::AddressSpace> pages_;  // of each GPU: what has no address
  std::vector<std::size_t> peaks_;
  std::map<std::uintptr_t, HostRange> host_;
  ManagedAdvice advice_;
  std::size_t pinned_ = 0;
  std::size_t peak_pinned_ = 0;
};

}  // namespace millrace::virtual_cuda
