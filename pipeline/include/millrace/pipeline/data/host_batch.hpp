#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include "millrace/memory/buffer.hpp"

namespace millrace {

/** @brief A tensor of a batch in pinned host memory, borrowed. */
struct HostTensor {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/** @brief A batch that a copy strategy can bring to the device: a list of pinned tensors. */
template <typename Batch>
concept Pipelineable = requires(const Batch& batch) {
  { batch.tensors() } -> std::convertible_to<std::span<const HostTensor>>;
};

/** @brief Owns the pinned tensors of one batch. Move-only. */
class HostBatch {
 public:
  HostBatch() = default;

  /**
   * @brief Allocates one pinned tensor for each size; 0 gives an empty tensor.
   * @param copy  the stream whose copies will read them
   * @throws out_of_memory, DeviceError as `Allocator::allocate`
   */
  HostBatch(Allocator& pinned, std::span<const std::size_t> sizes, StreamRef copy);

  [[nodiscard]] std::span<const HostTensor> tensors() const noexcept { return tensors_; }
  [[nodiscard]] std::size_t bytes() const noexcept;

  /** @brief Frees; all copies of it precede `copied`, a marker of the copy stream. */
  void release(Point copied);

 private:
  std::vector<Buffer> memory_;
  std::vector<HostTensor> tensors_;
};

static_assert(Pipelineable<HostBatch>);

}  // namespace millrace
