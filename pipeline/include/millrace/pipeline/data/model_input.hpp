#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "millrace/pipeline/data/copy_strategy.hpp"
#include "millrace/pipeline/data/host_batch.hpp"
#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"

namespace millrace {

/** @brief Sizes of a batch: all that is needed to make room for it. */
struct InputShape {
  std::size_t batch_size = 0;      ///< B
  std::size_t dense_features = 0;  ///< D
  bool labelled = true;
  JaggedLayout sparse;    ///< without weights
  JaggedLayout weighted;  ///< with weights

  /**
   * @brief Bytes of each tensor, in the order of `ModelInput::tensors`.
   * @throws std::invalid_argument if the sizes disagree
   */
  [[nodiscard]] std::vector<std::size_t> tensor_bytes() const;
};

/** @brief What a model reads of a batch, wherever that is. Each tensor may be empty. */
struct InputTensors {
  std::size_t batch_size = 0;
  std::size_t dense_features = 0;
  BatchTensor dense;   ///< float [B x D], row-major
  BatchTensor labels;  ///< float [B], 0 or 1
  KeyedJaggedTensor sparse;
  KeyedJaggedTensor weighted;
};

/** @brief A ModelInput on the device, or on its way there. Freed as its copy strategy does it. */
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
  /** @brief Frees the sparse features alone, all of whose uses precede `marker`; where the copy
   *         strategy has them in memory of their own. */
  void release_features(Point marker);

 private:
  DeviceBatch memory_;
  InputTensors tensors_;
};

/**
 * @brief A batch of examples in pinned host memory: dense and sparse features, and labels.
 *
 * Move-only. A batch of no examples is one as any other.
 */
class ModelInput {
 public:
  ModelInput() = default;
  /**
   * @brief Room for a batch of this shape; the memory's contents are the caller's to write.
   * @param pinned  gives the memory
   * @param copy    the stream whose copies will read it
   * @throws std::invalid_argument if the sizes disagree; out_of_memory, DeviceError as
   *         `Allocator::allocate`
   */
  ModelInput(Allocator& pinned, StreamRef copy, const InputShape& shape);

  [[nodiscard]] const InputTensors& contents() const noexcept { return contents_; }
  [[nodiscard]] std::size_t batch_size() const noexcept { return contents_.batch_size; }

  /**
   * @brief What is copied, in this order: dense, labels; lengths, offsets, values of `sparse`;
   *        lengths, offsets, values, weights of `weighted`.
   */
  [[nodiscard]] std::span<const HostTensor> tensors() const noexcept { return memory_.tensors(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.bytes(); }

  /**
   * @brief Enqueues its copy to the device. Release it behind `copied()` of the result.
   * @throws std::invalid_argument if `copy` is not the strategy's copy stream; as
   *         `CopyStrategy::copy`
   */
  [[nodiscard]] DeviceModelInput to(CopyStrategy& strategy, Stream& copy) const;

  /** @brief Frees the pinned memory; all copies of it precede `copied`. */
  void release(Point copied);

 private:
  HostBatch memory_;
  InputTensors contents_;
};

}  // namespace millrace
