#pragma once

#include <cstddef>

#include "millrace/device/device.hpp"

namespace millrace {

/** @brief Addresses under which memory comes and goes. */
struct AddressRange {
  void* base = nullptr;
  std::size_t bytes = 0;
};

/** @brief Where an allocator's segments come from. */
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;

  /** @throws DeviceError (out_of_memory when there is no room); nothing has changed then */
  [[nodiscard]] virtual void* acquire(std::size_t bytes) = 0;

  /** @brief Gives a segment back, whole. The caller knows all work on it to be complete. */
  virtual void release(void* base, std::size_t bytes) = 0;

  /** @brief Segment sizes are multiples of this, in bytes. */
  [[nodiscard]] virtual std::size_t granularity() const = 0;

  /** @brief Bytes by which memory comes and goes in growable ranges; 0: there are none here. */
  [[nodiscard]] virtual std::size_t page_bytes() const { return 0; }
  /** @brief Addresses, for more than the device has. @throws DeviceError */
  [[nodiscard]] virtual AddressRange reserve();
  /** @brief Nothing may be mapped there any more. */
  virtual void give_back(AddressRange range);
  /** @throws DeviceError (out_of_memory when there is no room); nothing has changed then */
  virtual void map(void* address, std::size_t bytes);
  /** @brief The caller knows all work on it to be complete. */
  virtual void unmap(void* address, std::size_t bytes);
};

/**
 * @brief Device memory: segments from the driver's synchronous allocation call, and growable ranges
 *        where the device can map memory.
 */
class DeviceSource final : public SegmentSource {
 public:
  explicit DeviceSource(Device& device) : device_(device) {}
  void* acquire(std::size_t bytes) override { return device_.allocate(bytes); }
  void release(void* base, std::size_t) override { device_.free(base); }
  std::size_t granularity() const override { return std::size_t{2} << 20; }
  std::size_t page_bytes() const override { return device_.page_bytes(); }
  AddressRange reserve() override;  ///< twice what the device has: holes use addresses up
  void give_back(AddressRange range) override { device_.release_range(range.base, range.bytes); }
  void map(void* address, std::size_t bytes) override { device_.map(address, bytes); }
  void unmap(void* address, std::size_t bytes) override { device_.unmap(address, bytes); }

 private:
  Device& device_;
};

/** @brief Segments of pinned host memory. */
class PinnedSource final : public SegmentSource {
 public:
  explicit PinnedSource(Device& device) : device_(device) {}
  void* acquire(std::size_t bytes) override { return device_.allocate_host(bytes); }
  void release(void* base, std::size_t) override { device_.free_host(base); }
  std::size_t granularity() const override { return std::size_t{64} << 10; }

 private:
  Device& device_;
};

}  // namespace millrace
