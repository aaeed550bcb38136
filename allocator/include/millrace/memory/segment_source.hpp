#pragma once

#include <cstddef>

#include "millrace/device/device.hpp"

namespace millrace {

/** @brief A range of addresses in which memory can be mapped. */
struct AddressRange {
  void* base = nullptr;
  std::size_t bytes = 0;
};

/** @brief Provides an allocator's segments, and growable ranges if it supports them. */
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;

  /**
   * @brief Allocates a segment.
   * @param bytes  a multiple of `granularity()`
   * @return the segment's address
   * @throws DeviceError (`out_of_memory` if the source has too little memory); nothing has changed
   *         then
   */
  [[nodiscard]] virtual void* acquire(std::size_t bytes) = 0;

  /**
   * @brief Frees a whole segment. All work on it must be complete.
   * @param base   from `acquire`
   * @param bytes  its size
   */
  virtual void release(void* base, std::size_t bytes) = 0;

  /** @brief Returns the unit of segment sizes in bytes. */
  [[nodiscard]] virtual std::size_t granularity() const = 0;

  /**
   * @brief Returns the page size of growable ranges in bytes; 0 if this source does not support
   *        them.
   */
  [[nodiscard]] virtual std::size_t page_bytes() const { return 0; }
  /**
   * @brief Reserves more addresses than the device has memory.
   * @return the range; nothing is mapped in it
   * @throws DeviceError if no addresses are available
   */
  [[nodiscard]] virtual AddressRange reserve();
  /** @brief Releases a range of addresses in which no memory is mapped. */
  virtual void give_back(AddressRange range);
  /**
   * @brief Maps memory in a range.
   * @param address  begin of pages of the range at which nothing is mapped
   * @param bytes    size, in whole pages
   * @throws DeviceError (`out_of_memory` if the source has too little memory); nothing has changed
   *         then
   */
  virtual void map(void* address, std::size_t bytes);
  /** @brief Unmaps memory, in whole pages. All work on it must be complete. */
  virtual void unmap(void* address, std::size_t bytes);

  /** @brief Returns whether mapped pages can be moved to other addresses of the source's ranges. */
  [[nodiscard]] virtual bool can_move() const { return false; }
  /**
   * @brief Maps the pages at `from` at `to` as well. They are the memory of `to` from now on. Work
   *        on `from` need not be complete, but uses of `to` must be ordered after it.
   * @param to     addresses of a range at which nothing is mapped
   * @param from   pages that are mapped
   * @param bytes  size, in whole pages
   * @throws DeviceError; nothing has changed then
   */
  virtual void begin_move(void* to, void* from, std::size_t bytes);
  /** @brief Unmaps `from`, all of it or a part. All work on these addresses must be complete. */
  virtual void end_move(void* from, std::size_t bytes);
};

/**
 * @brief Device memory: segments from the driver's synchronous allocation, and growable ranges if
 *        the device can map memory.
 */
class DeviceSource final : public SegmentSource {
 public:
  explicit DeviceSource(Device& device) : device_(device) {}
  void* acquire(std::size_t bytes) override { return device_.allocate(bytes); }
  void release(void* base, std::size_t) override { device_.free(base); }
  [[nodiscard]] std::size_t granularity() const override { return std::size_t{2} << 20; }
  [[nodiscard]] std::size_t page_bytes() const override { return device_.page_bytes(); }
  AddressRange reserve() override;  ///< twice the device's memory, since holes use up addresses
  void give_back(AddressRange range) override { device_.release_range(range.base, range.bytes); }
  void map(void* address, std::size_t bytes) override { device_.map(address, bytes); }
  void unmap(void* address, std::size_t bytes) override { device_.unmap(address, bytes); }
  [[nodiscard]] bool can_move() const override { return device_.can_alias(); }
  void begin_move(void* to, void* from, std::size_t bytes) override {
    device_.alias(to, from, bytes);
  }
  void end_move(void* from, std::size_t bytes) override { device_.unmap(from, bytes); }

 private:
  Device& device_;
};

/** @brief Segments of pinned host memory. */
class PinnedSource final : public SegmentSource {
 public:
  explicit PinnedSource(Device& device) : device_(device) {}
  void* acquire(std::size_t bytes) override { return device_.allocate_host(bytes); }
  void release(void* base, std::size_t) override { device_.free_host(base); }
  [[nodiscard]] std::size_t granularity() const override { return std::size_t{64} << 10; }

 private:
  Device& device_;
};

}  // namespace millrace
