#pragma once

#include <exception>
#include <memory>

#include "millrace/device/stream.hpp"
#include "millrace/pipeline/data/copy_strategy.hpp"
#include "millrace/pipeline/model/train_model.hpp"

namespace millrace {

/**
 * @brief The exchange of one batch's sparse features, from its start on. All of it is enqueued on
 *        the stream that it was started on.
 *
 * Each call may be repeated after it has thrown. Destruction at any time gives the exchange up:
 * its memory is freed behind what is enqueued.
 */
class FeatureExchange {
 public:
  virtual ~FeatureExchange() = default;

  /**
   * @brief The host learns how much comes, blocking where it has to, and the data is exchanged.
   * @param waits  coarse: blocks for all that the stream has queued; precise: for the sizes
   */
  virtual void receive(Waits waits) = 0;

  /**
   * @brief Frees what was brought into the order of the destinations and sent, which nothing but
   *        the exchange of the data reads; after `receive`, before `arrange` or not at all.
   */
  virtual void clear_inputs() {}

  /**
   * @brief Puts what was received into the order of the tables; after `receive`, once.
   * @return memory of the exchange's stream: others wait for it and record their use
   */
  [[nodiscard]] virtual SparseFeatures arrange() = 0;

 protected:
  FeatureExchange() = default;
  FeatureExchange(const FeatureExchange&) = default;
  FeatureExchange& operator=(const FeatureExchange&) = default;
};

/**
 * @brief How sparse features get from the ranks that read them to the ranks that look them up.
 *
 * One for a pipeline, or for several; one thread at a time. Every rank starts, receives and
 * arranges the same batches in the same order.
 */
class SparseExchange {
 public:
  virtual ~SparseExchange() = default;

  /**
   * @brief Brings a batch's features into the order of their destinations, and exchanges sizes.
   * @param input   read by what is enqueued until `receive` has returned; borrowed
   * @param stream  is ordered after what wrote `input`
   * @throws out_of_memory, DeviceError: nothing was started then
   */
  [[nodiscard]] virtual std::unique_ptr<FeatureExchange> start(const InputTensors& input,
                                                               Stream& stream) = 0;

  /**
   * @brief In the place of a start: this rank has no more batches. Blocks the host until the others
   *        have come to their next batch, or to their end.
   * @throws CollectiveError, on every rank, if some have a batch and some have none
   */
  virtual void exhausted() {}

  /**
   * @brief Something that ranks do together, from the start of an exchange to the end of a step,
   *        was left out here, or comes later: the others would take what is next for it. They are
   *        told.
   */
  virtual void left_out(const std::exception& /*why*/) noexcept {}

 protected:
  SparseExchange() = default;
  SparseExchange(const SparseExchange&) = default;
  SparseExchange& operator=(const SparseExchange&) = default;
};

}  // namespace millrace
