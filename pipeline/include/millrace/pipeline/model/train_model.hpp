#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"
#include "millrace/pipeline/data/model_input.hpp"

namespace millrace {

/** @brief The sparse features of a batch as lookups read them: after their exchange. */
struct SparseFeatures {
  KeyedJaggedTensor unweighted;
  KeyedJaggedTensor weighted;
  // With tables on several ranks those above are of the examples of all ranks, in the ranks' order.
  KeyedJaggedTensor own_unweighted;  ///< of tables that every rank has: of this rank's examples
  KeyedJaggedTensor own_weighted;    ///< likewise
  /** Of tables that pool by mean and are split by rows: float [features x examples], 1 / ids of
   * each bag of this rank's examples. */
  BatchTensor own_means, own_weighted_means;
  /** Where tables split by rows have features with position weights: float [N of `unweighted`], the
   * position of each id in its bag, from before that was split. */
  BatchTensor positions;
  std::vector<std::size_t> examples;  ///< of each rank; empty: there is one

  /** @brief `stream` uses all of it. */
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
 * @brief A batch's rows of the tables, pooled, on their way through a step: what forward reads, the
 *        gradient that backward leaves, and what the update needs. Made by `TrainModel::look_up`.
 *
 * Several may be there at once, each of another batch. Destruction at any time gives it up: memory
 * is freed behind what is enqueued, and the tables stay as they are.
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
 * @brief A model as a pipeline drives it. Nothing waits for the device.
 *
 * A step on a batch is zero_gradients, forward, backward, update_tables, optimizer_step, in this
 * order; each once, but that a step that did not get as far as forward begins again. The batch is
 * looked up at any time before forward, once, and may be prefetched before that. All but
 * prefetches, lookups and updates is enqueued on main.
 *
 * Waits are the caller's: for inputs and features before they are read; for the lookup before
 * forward, for backward before the update, where those are on another stream than main; and
 * between prefetches, lookups and updates, which read and write the same tables. Uses by another
 * stream of what the model has allocated are recorded by the model.
 */
class TrainModel {
 public:
  virtual ~TrainModel() = default;

  virtual void zero_gradients() = 0;

  /**
   * @brief Enqueues on `stream` what makes the lookup and the update of a batch quick: rows of
   *        cached tables come nearer, and stay until the lookup goes.
   *
   * What is computed is the same without it.
   * @param features  as of `look_up`
   * @return the lookup, which is to be completed before forward; nullptr: there is nothing to do
   * @throws out_of_memory, DeviceError; rows may have moved, and no number has changed
   */
  [[nodiscard]] virtual std::unique_ptr<TableLookup> prefetch(const SparseFeatures& features,
                                                              Stream& stream);
  /**
   * @brief Enqueues the lookup itself of a batch that was prefetched.
   * @param stream  of the lookup; the use of the features by it is recorded by the caller
   * @throws as `look_up`
   */
  virtual void look_up_prefetched(TableLookup& lookup, Stream& stream);

  /**
   * @brief Enqueues the lookup of a batch on `stream`, behind the updates that it shall see.
   * @param features  read until the update; the lookup keeps them (copies share the memory), and
   *                  their use by `stream` is recorded
   * @throws out_of_memory, DeviceError: nothing was looked up then
   */
  [[nodiscard]] virtual std::unique_ptr<TableLookup> look_up(const SparseFeatures& features,
                                                             Stream& stream) = 0;

  /**
   * @brief Loss of a batch, keeping what backward needs.
   *
   * Only forward reads `input`: it may be freed, ordered on main, when this returns.
   * @param lookup  of the same batch
   * @throws out_of_memory, DeviceError; the step is then given up: `abandon`
   */
  virtual void forward(const InputTensors& input, TableLookup& lookup) = 0;

  /** @brief Gradients of the dense parameters, and in `lookup`, of forward, that of its rows. */
  virtual void backward(TableLookup& lookup) = 0;

  /**
   * @brief Enqueues the fused backward and update of the tables, from what backward left.
   * @param stream  that of the lookup
   */
  virtual void update_tables(TableLookup& lookup, Stream& stream) = 0;

  /** @brief Updates the dense parameters. */
  virtual void optimizer_step() = 0;

  /**
   * @brief Exchanges the gradients of the dense parameters with `other`, memory of main that an
   *        earlier call gave out; where that is empty, room is made, of no meaning.
   * @throws out_of_memory, DeviceError: nothing was exchanged then
   */
  virtual void swap_gradients(Buffer& other) = 0;

  /** @brief Lets go of what an unfinished step keeps. Parameters are as the calls so far made them.
   */
  virtual void abandon() noexcept = 0;

  /**
   * @brief Which dense parameters lookups read and table updates add gradients to, in words; empty:
   *        none.
   *
   * If there are some, a lookup is that of the plain loop only behind optimizer_step of the batch
   * before, and optimizer_step of a batch goes behind its update_tables.
   */
  [[nodiscard]] virtual std::string dense_parameters_of_lookups() const { return {}; }

  /** @brief If not, backward, updates and optimizer do nothing, and nobody waits for them. */
  [[nodiscard]] virtual bool trains() const noexcept { return true; }

 protected:
  TrainModel() = default;
  TrainModel(const TrainModel&) = default;
  TrainModel& operator=(const TrainModel&) = default;
};

/**
 * @brief The plain step, all of it on `main`, the model's: what pipelines that claim to be exact
 *        give the bits of.
 */
void train_plainly(TrainModel& model, Stream& main, const InputTensors& input,
                   const SparseFeatures& features);

}  // namespace millrace
