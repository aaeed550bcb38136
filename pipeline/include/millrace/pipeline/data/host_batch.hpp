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
   * @brief Allocates one pinned tensor for each size; 0 gives an empty tensor.
   * @param copy  the stream whose copies will read them
   * @throws out_of_memory, DeviceError as `Allocator::allocate`
   */
  HostBatch(Allocator& pinned, std::span<const std::size_t> sizes, StreamRef copy);

  [[nodiscard]] std::span<const HostTensor> tensors() const noexcept { return tensors_; }
  [[nodiscard]] std::size_t bytes() const noexcept;

  /**
   * @brief Enqueues its copy to the device, on the strategy's copy stream.
   * @throws std::invalid_argument if `copy` is another stream; as `CopyStrategy::copy`
   */
  [[nodiscard]] DeviceBatch to(CopyStrategy& strategy, Stream& copy) const;

  /** @brief Frees; all copies of it precede `copied`, a marker of the copy stream. */
  void release(Point copied);

 private:
  std::vector<Buffer> memory_;
  std::vector<HostTensor> tensors_;
};

}  // namespace millrace
