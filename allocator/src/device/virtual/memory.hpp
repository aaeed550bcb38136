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

/** @brief Address space that nothing may touch; unmapped at the end. */
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
 * The second mapping is a sparse file in memory; what vanishes becomes a hole and reads as zero
 * when it appears again. Without data there is no file.
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
  /** @brief Where kernels find an offset. Only with data, only for what has appeared. */
  [[nodiscard]] std::byte* kernel_address(std::size_t offset) const noexcept {
    return kernel_base_ + offset;
  }

  void appear(std::size_t offset, std::size_t bytes);  ///< poisoned
  void vanish(std::size_t offset, std::size_t bytes);
  void forget(std::size_t offset, std::size_t bytes);  ///< at the end: all of it vanishes

 private:
  Reservation addresses_;
  int file_ = -1;
  std::byte* kernel_base_ = nullptr;
};

/** @brief Addresses under which pages come and go, and a second mapping of them for kernels. */
struct GrowableRange {
  GrowableRange(std::size_t bytes, bool data);
  ~GrowableRange();
  GrowableRange(const GrowableRange&) = delete;
  GrowableRange& operator=(const GrowableRange&) = delete;

  /** @brief Where kernels find an offset. Only with data. */
  [[nodiscard]] std::byte* kernel_address(std::size_t offset) const noexcept {
    return kernel ? kernel->base() + offset : nullptr;
  }

  Reservation addresses;
  std::optional<Reservation> kernel;  ///< as long as `addresses`
  MappedOffsets mapped;
  std::unordered_map<std::size_t, PhysicalPages::Page> pages;  ///< by offset
  std::size_t position = 0;  ///< where it counts as lying in the device's address space
};

/** @brief A device's memory: allocations of the driver's choice of address, and growable ranges. */
class DeviceMemory {
 public:
  DeviceMemory(std::size_t bytes, std::size_t granularity, bool data);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /** @brief Rounded up to the granularity. Null when the device is full. */
  [[nodiscard]] void* allocate(std::size_t bytes);
  /** @return the size that was given back; 0 if nothing was allocated at `address` */
  std::size_t free(void* address);

  /** @brief Addresses, in multiples of the granularity, without memory. */
  [[nodiscard]] void* reserve(std::size_t bytes);
  /** @brief The range that begins at `base`; nullptr if there is none. */
  [[nodiscard]] GrowableRange* range_at(const void* base) noexcept;
  /** @brief The range that contains all of these addresses; nullptr if there is none. */
  [[nodiscard]] GrowableRange* range_of(const void* address, std::size_t bytes) noexcept;
  void release(const void* base);  ///< the range must have nothing mapped
  /** @return false if some of it is mapped already. The device has room, the range the addresses */
  [[nodiscard]] bool map(GrowableRange& range, const void* address, std::size_t bytes);
  /** @return false if some of it is not mapped */
  [[nodiscard]] bool unmap(GrowableRange& range, const void* address, std::size_t bytes);
  /**
   * @brief Maps the pages at `from`, which are all mapped, at `to` as well.
   * @return false if something is mapped at some of `to`
   */
  [[nodiscard]] bool alias(GrowableRange& range, const void* to, const GrowableRange& source,
                           const void* from, std::size_t bytes);

  [[nodiscard]] bool contains(const void* address) const noexcept;
  /** @brief Whether `address` is one that `allocate` gave and that is not freed. */
  [[nodiscard]] bool starts(const void* address) const noexcept;
  /** @brief Whether the range lies in one allocation, or in mapped memory. */
  [[nodiscard]] bool holds(const void* address, std::size_t bytes) const noexcept;
  /** @brief Offset in the device's address space; ranges come after all memory of `allocate`. */
  [[nodiscard]] std::size_t offset(const void* address) const noexcept;
  [[nodiscard]] std::size_t total() const noexcept { return total_; }
  [[nodiscard]] std::size_t used() const noexcept {
    return space_.taken_bytes() + pages_.used_bytes();
  }
  [[nodiscard]] std::size_t granularity() const noexcept { return granularity_; }

  /** @brief Where kernels find `address`. Only with data, only for what is there. */
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

/** @brief Pinned memory: readable and writable by the host at known addresses. */
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
  std::optional<Reservation> arena_;  ///< made when it is first needed
};

/** @brief Makes a kernel's views accessible; under AddressSanitizer only these. */
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
