#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "device/virtual/physical_pages.hpp"
#include "millrace/device/address_space.hpp"
#include "millrace/device/operation.hpp"

namespace millrace::simulation {

/** @brief Address space that no code can access. The destructor unmaps it. */
class Reservation {
 public:
  explicit Reservation(std::size_t bytes);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool contains(const void* address) const noexcept;
  [[nodiscard]] std::size_t offset(const void* address) const noexcept;

 private:
  std::byte* base_;
  std::size_t size_;
};

/**
 * @brief Addresses that fault on the host, and a second mapping of them for kernels.
 *
 * The second mapping is a sparse file in memory. Memory that is given back becomes a hole in it,
 * and reads as zero when it is used again. Without data no file exists.
 */
class Arena {
 public:
  Arena(std::size_t bytes, bool data);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] const Reservation& addresses() const noexcept { return addresses_; }
  [[nodiscard]] std::byte* at(std::size_t offset) const noexcept {
    return addresses_.base() + offset;
  }
  /**
   * @brief Returns the kernels' address for an offset. Only with data, and only for memory in use.
   */
  [[nodiscard]] std::byte* kernel_address(std::size_t offset) const noexcept {
    return kernel_base_ + offset;
  }

  void appear(std::size_t offset, std::size_t bytes);  ///< begins a use; poisoned
  void vanish(std::size_t offset, std::size_t bytes);
  void forget(std::size_t offset, std::size_t bytes);  ///< like `vanish`, when the arena ends

 private:
  Reservation addresses_;
  int file_ = -1;
  std::byte* kernel_base_ = nullptr;
};

/**
 * @brief Addresses at which pages are mapped and unmapped, and a second mapping of them for
 *        kernels.
 */
struct GrowableRange {
  GrowableRange(std::size_t bytes, bool data);
  ~GrowableRange();
  GrowableRange(const GrowableRange&) = delete;
  GrowableRange& operator=(const GrowableRange&) = delete;

  /** @brief Returns the kernels' address for an offset; nullptr without data. */
  [[nodiscard]] std::byte* kernel_address(std::size_t offset) const noexcept {
    return kernel ? kernel->base() + offset : nullptr;
  }

  Reservation addresses;
  std::optional<Reservation> kernel;  ///< as long as `addresses`
  MappedOffsets mapped;
  std::unordered_map<std::size_t, PhysicalPages::Page> pages;  ///< by offset
  std::size_t position = 0;  ///< where it begins in the device's address space
};

/**
 * @brief A device's memory: allocations at addresses that the driver chooses, and growable ranges.
 */
class DeviceMemory {
 public:
  DeviceMemory(std::size_t bytes, std::size_t granularity, bool data);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /**
   * @brief Allocates `bytes`, rounded up to the granularity. Returns nullptr if the device is full.
   */
  [[nodiscard]] void* allocate(std::size_t bytes);
  /** @return the size that was freed; 0 if nothing was allocated at `address` */
  std::size_t free(void* address);

  /** @brief Reserves addresses without memory. `bytes` is a multiple of the granularity. */
  [[nodiscard]] void* reserve(std::size_t bytes);
  /** @brief Returns the range that begins at `base`; nullptr if none does. */
  [[nodiscard]] GrowableRange* range_at(const void* base) noexcept;
  /** @brief Returns the range that contains all of these addresses; nullptr if none does. */
  [[nodiscard]] GrowableRange* range_of(const void* address, std::size_t bytes) noexcept;
  void release(const void* base);  ///< the range must have nothing mapped
  /**
   * @brief Maps new pages. The device must have room, and the range must contain the addresses.
   * @return false if some of the addresses are mapped already
   */
  [[nodiscard]] bool map(GrowableRange& range, const void* address, std::size_t bytes);
  /** @return false if some of the addresses are not mapped */
  [[nodiscard]] bool unmap(GrowableRange& range, const void* address, std::size_t bytes);
  /**
   * @brief Maps the pages at `from`, which are all mapped, at `to` as well.
   * @return false if some of `to` is mapped already
   */
  [[nodiscard]] bool alias(GrowableRange& range, const void* to, const GrowableRange& source,
                           const void* from, std::size_t bytes);

  [[nodiscard]] bool contains(const void* address) const noexcept;
  /** @brief Returns whether `allocate` returned `address` and it was not freed. */
  [[nodiscard]] bool starts(const void* address) const noexcept;
  /** @brief Returns whether the range lies in one allocation, or in mapped memory. */
  [[nodiscard]] bool holds(const void* address, std::size_t bytes) const noexcept;
  /**
   * @brief Returns the offset in the device's address space. Ranges come after the memory of
   *        `allocate`.
   */
  [[nodiscard]] std::size_t offset(const void* address) const noexcept;
  [[nodiscard]] std::size_t total() const noexcept { return total_; }
  [[nodiscard]] std::size_t used() const noexcept {
    return space_.taken_bytes() + pages_.used_bytes();
  }
  [[nodiscard]] std::size_t granularity() const noexcept { return granularity_; }

  /**
   * @brief Returns the kernels' address for `address`. Only with data, and only for memory in use.
   */
  [[nodiscard]] std::byte* kernel_address(const void* address) const noexcept;

 private:
  [[nodiscard]] const GrowableRange* range_with(const void* address) const noexcept;
  void show(GrowableRange& range, std::size_t offset, PhysicalPages::Page page);

  std::size_t total_;
  std::size_t granularity_;
  bool data_;
  Arena arena_;
  AddressSpace space_;
  AddressSpace positions_;
  PhysicalPages pages_;
  std::map<const std::byte*, std::unique_ptr<GrowableRange>> ranges_;
};

/** @brief Pinned memory: the host can read and write it, at known addresses. */
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes) : bytes_(bytes), space_(bytes) {}

  [[nodiscard]] void* allocate(std::size_t bytes);
  std::size_t free(void* address);
  [[nodiscard]] bool holds(const void* address, std::size_t bytes) const noexcept;
  [[nodiscard]] bool contains(const void* address) const noexcept {
    return arena_ && arena_->contains(address);
  }
  [[nodiscard]] std::size_t free_bytes() const noexcept { return bytes_ - space_.taken_bytes(); }

 private:
  std::size_t bytes_;
  AddressSpace space_;
  std::optional<Reservation> arena_;  ///< made at its first use
};

/**
 * @brief Makes a kernel's views accessible. Under AddressSanitizer all other memory stays poisoned.
 */
class KernelAccess {
 public:
  explicit KernelAccess(std::span<const std::span<std::byte>> device_views);
  ~KernelAccess();
  KernelAccess(const KernelAccess&) = delete;
  KernelAccess& operator=(const KernelAccess&) = delete;

 private:
  std::span<const std::span<std::byte>> views_;
};

}  // namespace millrace::simulation
