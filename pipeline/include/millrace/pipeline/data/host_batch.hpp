#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/buffer.hpp"

namespace millrace {

/** @brief A tensor of a batch in pinned host memory, borrowed. */
struct HostTensor {
  void* data = nullptr;
  std::size_t bytes = 0;
};

class CopyStrategy;
class DeviceBatch;

/** @brief Owns the pinned tensors of one batch. Move-only. */
class HostBatch {
 public:
  HostBatch() = default;
  HostBatch(HostBatch&&) noexcept = default;
  HostBatch& operator=(HostBatch&&) noexcept = default;

  /**
   * @brief Allocates one pinned tensor for each size.
   * @param sizes  in bytes; 0 gives an empty tensor
   * @param copy   the stream on which the tensors will be copied: that of their CopyStrategy
   * @throws out_of_memory, DeviceError like `Allocator::allocate`
   */
  HostBatch(Allocator& pinned, std::span<const std::size_t> sizes, StreamRef copy);

  [[nodiscard]] std::span<const HostTensor> tensors() const noexcept { return tensors_; }
  [[nodiscard]] std::size_t bytes() const noexcept;

  /**
   * @brief Enqueues the copy to the device on the strategy's copy stream. Does not wait.
   * @throws the exceptions of `CopyStrategy::copy`
   */
  [[nodiscard]] DeviceBatch to(CopyStrategy& strategy) const;

  /**
   * @brief Frees the pinned memory once the device has passed `copied`.
   * @param copied  a marker on the copy stream after all copies of this batch
   */
  void release(Point copied);

 private:
  std::vector<Buffer> memory_;
  std::vector<HostTensor> tensors_;
};

}  // namespace millrace
