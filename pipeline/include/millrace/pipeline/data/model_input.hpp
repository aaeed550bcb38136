#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "millrace/pipeline/data/copy_strategy.hpp"
#include "millrace/pipeline/data/host_batch.hpp"
#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"

namespace millrace {

/** @brief The sizes that determine how much memory a batch needs. */
struct InputShape {
  std::size_t batch_size = 0;      ///< B
  std::size_t dense_features = 0;  ///< D
  bool labeled = true;             ///< whether the batch has labels
  JaggedLayout sparse;             ///< features without weights
  JaggedLayout weighted;           ///< features with weights

  /**
   * @brief Returns the bytes of each tensor, in the order of `ModelInput::tensors`.
   * @throws std::invalid_argument if the sizes do not agree with each other
   */
  [[nodiscard]] std::vector<std::size_t> tensor_bytes() const;
};

/** @brief The tensors of a batch, on the host or on the device. Each of them may be empty. */
struct InputTensors {
  std::size_t batch_size = 0;
  std::size_t dense_features = 0;
  BatchTensor dense;   ///< float [B x D], row-major
  BatchTensor labels;  ///< float [B], 0 or 1
  KeyedJaggedTensor sparse;
  KeyedJaggedTensor weighted;
};

/**
 * @brief A ModelInput on the device, or being copied to it. Move-only.
 *
 * DeviceBatch describes `copied`, `hand_to`, `record_use`, `last_used` and `release`.
 */
class DeviceModelInput {
 public:
  DeviceModelInput() = default;
  DeviceModelInput(DeviceBatch memory, const InputTensors& host);

  [[nodiscard]] const InputTensors& tensors() const noexcept { return tensors_; }
  [[nodiscard]] Point copied() const noexcept { return memory_.copied(); }
  void hand_to(Stream& user) { memory_.hand_to(user); }
  void record_use(StreamRef user) { memory_.record_use(user); }
  void last_used(Point marker) noexcept { memory_.last_used(marker); }
  void release();
  /**
   * @brief Frees only the sparse features, if the copy strategy gives them their own memory;
   *        otherwise they are freed with the batch.
   * @param marker  every use of the sparse features precedes it
   */
  void release_features(Point marker);

 private:
  DeviceBatch memory_;
  InputTensors tensors_;
};

/**
 * @brief A batch of examples in pinned host memory: dense features, sparse features and labels.
 *
 * Move-only. A batch may have no examples.
 */
class ModelInput {
 public:
  ModelInput() = default;
  /**
   * @brief Allocates a batch of this shape. The caller writes its contents.
   * @param pinned  allocates the pinned memory
   * @param copy    the stream on which the batch will be copied to the device
   * @throws std::invalid_argument if the sizes do not agree with each other
   * @throws out_of_memory, DeviceError like `Allocator::allocate`
   */
  ModelInput(Allocator& pinned, StreamRef copy, const InputShape& shape);

  [[nodiscard]] const InputTensors& contents() const noexcept { return contents_; }
  [[nodiscard]] std::size_t batch_size() const noexcept { return contents_.batch_size; }

  /**
   * @brief Returns the tensors that are copied, in this order: dense; labels; lengths, offsets and
   * values of `sparse`; lengths, offsets, values and weights of `weighted`.
   */
  [[nodiscard]] std::span<const HostTensor> tensors() const noexcept { return memory_.tensors(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.bytes(); }

  /**
   * @brief Enqueues the copy to the device on the strategy's copy stream. Does not wait.
   *
   * Then call `release` with `copied()` of the result.
   * @throws the exceptions of `CopyStrategy::copy`
   */
  [[nodiscard]] DeviceModelInput to(CopyStrategy& strategy) const;

  /**
   * @brief Frees the pinned memory once the device has passed `copied`.
   * @param copied  a marker on the copy stream after all copies of this batch
   */
  void release(Point copied);

 private:
  HostBatch memory_;
  InputTensors contents_;
};

}  // namespace millrace
