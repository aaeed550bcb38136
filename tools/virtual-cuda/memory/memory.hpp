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
 * @brief The memory of the virtual GPUs, and the known ranges of host memory.
 *
 * Device memory is address space that the host cannot access: a dereference faults, as with a GPU.
 * Its data are at a fixed distance, in the mapping of a memory file. Only written pages take
 * physical memory. The GPUs' memory comes first. After it come the address ranges that programs
 * reserve and map pages of that memory into (class Ranges).
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
    CUmemPoolHandle_st* pool = nullptr;  ///< the pool that cuts it into blocks; may be null
  };
  struct Range {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
  };

  /** @throws std::runtime_error if the address space cannot be reserved */
  Memory(unsigned gpus, std::size_t bytes_of_each);

  /** @brief The host address of the memory at `address`. */
  [[nodiscard]] std::byte* data(const void* address) const noexcept {
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    return reinterpret_cast<std::byte*>(value - base_ < span_ ? value + span_ : value);
  }
  [[nodiscard]] bool on_device(const void* address) const noexcept {
    return reinterpret_cast<std::uintptr_t>(address) - base_ < span_;
  }
  /** @brief Whether `address` is in the GPUs' own memory, not in a reserved range. */
  [[nodiscard]] bool in_gpu(const void* address) const noexcept {
    return reinterpret_cast<std::uintptr_t>(address) - base_ < stride_ * spaces_.size();
  }
  /** @brief Whether `address` is in the region of reserved ranges. */
  [[nodiscard]] bool in_range(const void* address) const noexcept {
    return on_device(address) && !in_gpu(address);
  }
  /** @brief The GPU of `address`, which must be `on_device`; 0 if nothing is mapped there. */
  [[nodiscard]] unsigned gpu_of(const void* address) const;

  /** @brief Allocates device memory, of any size above 0. Null if `gpu` has no hole for it. */
  [[nodiscard]] void* take(unsigned gpu, std::size_t bytes);
  /** @brief Frees memory from `take`. @return false, without a change, for other addresses */
  bool give(void* address);
  [[nodiscard]] std::size_t total() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t used(unsigned gpu) const {
    return spaces_[gpu].taken_bytes() + pages_[gpu].taken_bytes();
  }
  [[nodiscard]] std::size_t peak(unsigned gpu) const { return peaks_[gpu]; }
  /** @brief The piece from `take` that holds `address`. */
  [[nodiscard]] std::optional<Range> piece(const void* address) const;

  /** @brief Allocates pinned or managed memory. Null if the host lacks the memory. */
  [[nodiscard]] void* take_host(std::size_t bytes, const HostRange& range);
  /** @brief Frees memory from `take_host`. @return false unless `address` is its start, and kind
   *         and pool match */
  bool give_host(void* address, Kind kind, const CUmemPoolHandle_st* pool = nullptr);
  /** @return false if the range overlaps a known one */
  [[nodiscard]] bool register_host(void* address, const HostRange& range);
  bool unregister_host(void* address);
  /** @brief The range that holds `address`, and its start. */
  [[nodiscard]] const HostRange* host_range(const void* address,
                                            std::uintptr_t* start = nullptr) const;
  [[nodiscard]] std::size_t pinned_bytes() const noexcept { return pinned_; }
  [[nodiscard]] std::size_t peak_pinned_bytes() const noexcept { return peak_pinned_; }

  [[nodiscard]] Kind kind_of(const void* address) const;
  [[nodiscard]] ManagedAdvice& advice() noexcept { return advice_; }

  /** @brief The region for reserved ranges. */
  [[nodiscard]] Range range_region() const noexcept;
  /** @brief Takes whole pages of a GPU's memory, without an address. Nothing if the GPU is full. */
  [[nodiscard]] std::optional<std::size_t> take_pages(unsigned gpu, std::size_t bytes);
  void give_pages(unsigned gpu, std::size_t pages);
  /** @brief Maps pages of `take_pages` at `address` in `range_region`. @return false: no memory */
  [[nodiscard]] bool show(void* address, unsigned gpu, std::size_t pages, std::size_t bytes);
  void hide(void* address, std::size_t bytes);

 private:
  std::uintptr_t base_ = 0;
  std::size_t span_ = 0;  // address space of all GPUs and ranges; the data follow
  std::size_t stride_ = 0;
  std::size_t bytes_ = 0;
  int file_ = -1;
  struct Shown {
    std::size_t bytes;
    unsigned gpu;
  };
  std::map<std::uintptr_t, Shown> shown_;  // pages that are mapped in ranges
  /// Offset in the file of pages without an address. Memory with addresses comes first.
  [[nodiscard]] std::size_t file_offset(unsigned gpu, std::size_t pages) const noexcept {
    return stride_ * (spaces_.size() + gpu) + pages;
  }
  void return_to_system(std::size_t offset, std::size_t bytes) const;

  std::vector<simulation::AddressSpace> spaces_;
  std::vector<simulation::AddressSpace> pages_;  // by GPU: memory without an address
  std::vector<std::size_t> peaks_;
  std::map<std::uintptr_t, HostRange> host_;
  ManagedAdvice advice_;
  std::size_t pinned_ = 0;
  std::size_t peak_pinned_ = 0;
};

}  // namespace millrace::virtual_cuda
