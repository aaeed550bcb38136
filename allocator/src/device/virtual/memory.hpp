#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "device/virtual/address_space.hpp"
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
 * @brief A device's memory: addresses that fault on the host, and a second mapping for kernels.
 *
 * The second mapping is a sparse file in memory; what is freed becomes a hole and reads as zero
 * when it is allocated again. Without data there is no file.
 */
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

  [[nodiscard]] bool contains(const void* address) const noexcept {
    return addresses_.contains(address);
  }
  /** @brief Whether `address` is one that `allocate` gave and that is not freed. */
  [[nodiscard]] bool starts(const void* address) const noexcept {
    return space_.starts(addresses_.offset(address));
  }
  /** @brief Whether the range lies in one allocation. */
  [[nodiscard]] bool holds(const void* address, std::size_t bytes) const noexcept;
  [[nodiscard]] std::size_t offset(const void* address) const noexcept {
    return addresses_.offset(address);
  }
  [[nodiscard]] std::size_t total() const noexcept { return total_; }
  [[nodiscard]] std::size_t used() const noexcept { return space_.taken_bytes(); }
  [[nodiscard]] std::size_t granularity() const noexcept { return granularity_; }

  /** @brief Where kernels find `address`. Only with data, only for what is allocated. */
  [[nodiscard]] std::byte* kernel_address(const void* address) const noexcept;

 private:
  std::size_t total_;
  std::size_t granularity_;
  Reservation addresses_;
  AddressSpace space_;
  int file_ = -1;
  std::byte* kernel_base_ = nullptr;
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

/** @brief Lets a kernel touch its views, and under AddressSanitizer nothing else of the device. */
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
