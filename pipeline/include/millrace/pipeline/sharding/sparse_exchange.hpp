#pragma once

#include <exception>
#include <memory>

#include "millrace/device/stream.hpp"
#include "millrace/pipeline/data/copy_strategy.hpp"
#include "millrace/pipeline/model/train_model.hpp"

namespace millrace {

/**
 * @brief The exchange of the sparse features of one batch, after `SparseExchange::start`.
 *
 * All device work is enqueued on the stream given to `start`. A call that threw may be repeated.
 * The object may be destroyed at any time, which abandons the exchange: its memory is freed after
 * the work enqueued so far.
 */
class FeatureExchange {
 public:
  virtual ~FeatureExchange() = default;

  /**
   * @brief Gets the sizes of the data to be received, then enqueues the exchange of the data.
   *
   * Blocks the host until the sizes are known, if they come from other ranks.
   * @param waits  coarse: the host waits for everything enqueued on the stream; precise: it waits
   *               only for the sizes
   */
  virtual void receive(Waits waits) = 0;

  /**
   * @brief Frees the send buffers, which contain the features sorted by destination.
   *
   * Optional. Call it after `receive` and before `arrange`; only the exchange of the data reads
   * these buffers.
   */
  virtual void clear_inputs() {}

  /**
   * @brief Reorders the received features for the tables. Call it once, after `receive`.
   * @return features in memory owned by the exchange's stream; another stream must wait for that
   *         stream and record its use
   */
  [[nodiscard]] virtual SparseFeatures arrange() = 0;

 protected:
  FeatureExchange() = default;
  FeatureExchange(const FeatureExchange&) = default;
  FeatureExchange& operator=(const FeatureExchange&) = default;
};

/**
 * @brief Sends sparse features from the ranks that read them to the ranks that look them up.
 *
 * One object serves one pipeline, or several that take turns. Not thread-safe. Every rank calls
 * `start`, `receive` and `arrange` for the same batches in the same order.
 */
class SparseExchange {
 public:
  virtual ~SparseExchange() = default;

  /**
   * @brief Sorts a batch's features by destination, and starts the exchange of sizes.
   * @param input   borrowed; the work enqueued until `receive` returns reads it
   * @param stream  must be ordered after the work that wrote `input`
   * @throws out_of_memory, DeviceError: no exchange was started
   */
  [[nodiscard]] virtual std::unique_ptr<FeatureExchange> start(const InputTensors& input,
                                                               Stream& stream) = 0;

  /**
   * @brief Call it instead of `start` when this rank has no more batches. Blocks the host until
   *        every other rank has called `start` or `exhausted`.
   * @throws CollectiveError on every rank, if some ranks have a batch and others have none
   */
  virtual void exhausted() {}

  /**
   * @brief Call it when this rank skips or postpones a collective step, from the start of an
   *        exchange to the end of a training step.
   *
   * Fails the group on the other ranks, which would otherwise pair their call with the wrong call
   * of this rank.
   * @param why  the error that made this rank skip the step
   */
  virtual void left_out([[maybe_unused]] const std::exception& why) noexcept {}

 protected:
  SparseExchange() = default;
  SparseExchange(const SparseExchange&) = default;
  SparseExchange& operator=(const SparseExchange&) = default;
};

}  // namespace millrace
