#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"
#include "millrace/pipeline/data/model_input.hpp"

namespace millrace {

/** @brief The sparse features of a batch after their exchange, as lookups read them. */
struct SparseFeatures {
  // With several ranks these two have the examples of all ranks, in the order of ranks.
  KeyedJaggedTensor unweighted;
  KeyedJaggedTensor weighted;
  KeyedJaggedTensor own_unweighted;  ///< for data-parallel tables: only this rank's examples
  KeyedJaggedTensor own_weighted;    ///< the same for features with weights
  /// For tables that pool by mean and are split by rows: float [features x examples], 1 / number of
  /// ids of each bag, for this rank's examples.
  BatchTensor own_means, own_weighted_means;
  /// For tables that are split by rows and have features with position weights: float [N of
  /// `unweighted`], the position of each id in its bag before the bag was split.
  BatchTensor positions;
  std::vector<std::size_t> examples;  ///< number of examples of each rank; empty for one rank

  /** @brief Records that `stream` uses all of the tensors. */
  void record_use(StreamRef stream) const {
    for (const auto* part : {&unweighted, &weighted, &own_unweighted, &own_weighted}) {
      part->record_use(stream);
    }
    own_means.record_use(stream);
    own_weighted_means.record_use(stream);
    positions.record_use(stream);
  }
};

/**
 * @brief The pooled rows of one batch: forward reads them, backward stores their gradient, and the
 *        update uses that. Made by `TrainModel::look_up`.
 *
 * Lookups of several batches may exist at the same time. A lookup may be destroyed at any time: its
 * memory is freed after the work enqueued so far, and the tables do not change.
 */
class TableLookup {
 public:
  virtual ~TableLookup() = default;

 protected:
  TableLookup() = default;
  TableLookup(const TableLookup&) = default;
  TableLookup& operator=(const TableLookup&) = default;
};

/**
 * @brief The interface of a model for training pipelines. No function waits for the device.
 *
 * A step on a batch calls zero_gradients, forward, backward, update_tables and optimizer_step, in
 * this order, each once. A step that failed before forward starts again. The batch is looked up
 * once, at any time before forward, and may be prefetched before. Prefetches, lookups and updates
 * are enqueued on the given stream, everything else on main.
 *
 * The caller inserts the waits: for inputs and features before they are read; for the lookup before
 * forward, and for backward before the update, if they are on another stream than main; and between
 * prefetches, lookups and updates, which access the same tables. The model records the uses of its
 * own memory by other streams.
 */
class TrainModel {
 public:
  virtual ~TrainModel() = default;

  /** @brief Enqueues on main: sets the gradients of the dense parameters to zero. */
  virtual void zero_gradients() = 0;

  /**
   * @brief Enqueues on `stream` the fetching of rows of cached tables, which makes the lookup and
   *        the update of a batch faster.
   *
   * The rows stay in the cache until the lookup is destroyed. The results are the same without it.
   * @param features  as for `look_up`
   * @param stream    as for `look_up`
   * @return the lookup, to be completed by `look_up_prefetched` before forward; nullptr if the
   * model has no cached tables
   * @throws out_of_memory, DeviceError. Rows may have moved; no value has changed
   */
  [[nodiscard]] virtual std::unique_ptr<TableLookup> prefetch(const SparseFeatures& features,
                                                              Stream& stream);
  /**
   * @brief Enqueues the lookup of a batch that was prefetched.
   * @param lookup  from `prefetch`
   * @param stream  the lookup's stream; the caller records its use of the features
   * @throws like `look_up`
   */
  virtual void look_up_prefetched(TableLookup& lookup, Stream& stream);

  /**
   * @brief Enqueues the lookup of a batch on `stream`.
   * @param features  read until the update. The lookup keeps them (copies share the memory); the
   *                  use by `stream` is recorded
   * @param stream    ordered after the updates that the lookup must see
   * @throws out_of_memory, DeviceError: nothing was looked up
   */
  [[nodiscard]] virtual std::unique_ptr<TableLookup> look_up(const SparseFeatures& features,
                                                             Stream& stream) = 0;

  /**
   * @brief Enqueues on main: computes the loss of a batch and keeps what backward needs.
   *
   * Only forward reads `input`: the caller may free it, ordered on main, when this returns.
   * @param lookup  the lookup of the same batch
   * @throws out_of_memory, DeviceError; the step is then dropped: call `abandon`
   */
  virtual void forward(const InputTensors& input, TableLookup& lookup) = 0;

  /**
   * @brief Enqueues on main: computes the dense gradients, and stores the gradient of the pooled
   *        rows in `lookup`.
   * @param lookup  must be the one passed to `forward`
   */
  virtual void backward(TableLookup& lookup) = 0;

  /**
   * @brief Enqueues the fused backward and update of the tables, with the gradient in `lookup`.
   * @param stream  the stream of the lookup
   */
  virtual void update_tables(TableLookup& lookup, Stream& stream) = 0;

  /** @brief Enqueues on main: updates the dense parameters. */
  virtual void optimizer_step() = 0;

  /**
   * @brief Exchanges the buffer of the dense gradients with `other`.
   * @param other  a buffer from an earlier call, owned by main. If it is empty, the model allocates
   *               a new buffer with unspecified contents for its gradients
   * @throws out_of_memory, DeviceError: nothing was exchanged
   */
  virtual void swap_gradients(Buffer& other) = 0;

  /** @brief Frees what an unfinished step keeps. Does not undo updates that were made. */
  virtual void abandon() noexcept = 0;

  /**
   * @brief Describes the dense parameters that lookups read and table updates add gradients to;
   *        empty if there are none.
   *
   * If there are such parameters, a lookup is exact only after optimizer_step of the previous
   * batch, and optimizer_step of a batch must come after its update_tables.
   */
  [[nodiscard]] virtual std::string dense_parameters_of_lookups() const { return {}; }

  /** @brief False for evaluation: backward, update_tables and optimizer_step are no-ops, and
   *         pipelines do not order anything after them. */
  [[nodiscard]] virtual bool trains() const noexcept { return true; }

 protected:
  TrainModel() = default;
  TrainModel(const TrainModel&) = default;
  TrainModel& operator=(const TrainModel&) = default;
};

/**
 * @brief Enqueues one plain step on `main`. Exact pipelines are bit-identical to a loop of these.
 * @param main  the model's main stream
 */
void train_plainly(TrainModel& model, Stream& main, const InputTensors& input,
                   const SparseFeatures& features);

}  // namespace millrace
