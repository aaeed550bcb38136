#pragma once

#include <cstddef>

#include "millrace/device/device.hpp"

namespace millrace {

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
};

/** @brief Segments of device memory from the driver's synchronous allocation call. */
class DeviceSource final : public SegmentSource {
 public:
  explicit DeviceSource(Device& device) : device_(device) {}
  void* acquire(std::size_t bytes) override { return device_.allocate(bytes); }
  void release(void* base, std::size_t) override { device_.free(base); }
  std::size_t granularity() const override { return std::size_t{2} << 20; }

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
