#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/data/epoch_source.hpp"
#include "millrace/pipeline/model/checkpoint.hpp"
#include "millrace/pipeline/model/sparse_nn.hpp"
#include "millrace/pipeline/model/whole_state.hpp"
#include "millrace/pipeline/schedule/training_device.hpp"
#include "millrace/pipeline/sharding/sharding_plan.hpp"

namespace millrace {

/** @brief How well a model predicts. */
struct Evaluation {
  std::uint64_t examples = 0;
  double loss = 0;  ///< mean binary cross-entropy, in nats
  double auc = 0;   ///< as area_under_curve
};

/** @brief What was trained on since it was last asked. */
struct TrainingProgress {
  std::uint64_t steps = 0, examples = 0;
  double loss = 0;  ///< mean over the examples, each as of its step
};

/** @brief One of several ranks that train a model together. */
struct TrainingRank {
  ProcessGroup& group;  ///< of the device; outlives the trainer
  ShardingPlan plan;
};

/**
 * @brief Trains a SparseNN on the batches of a source, with the pipeline that its device is for.
 *
 * Every pipeline, copy strategy, kind of waits and allocator gives the same bits. What a model
 * throws is the end: a trainer is not used after that.
 *
 * With several ranks each has a trainer, and a share of every batch (ShareSource): all call the
 * same, in the same order. What one throws the others hear of, as a CollectiveError.
 */
class Trainer {
 public:
  /**
   * @param device  and `source` outlive this
   * @param rank    none: all is here
   * @throws std::invalid_argument if the model can not be; as SparseNN, ShardedModel
   */
  Trainer(TrainingDevice& device, const SparseNNConfig& model, EpochSource& source,
          const std::optional<TrainingRank>& rank = std::nullopt);
  ~Trainer();

  /**
   * @brief Enqueues one step. @return false when all of the epoch was trained on, or all that
   *         `stop_at` lets be
   * @throws InvalidIdError if an id is no row of the model's table; as TrainPipeline::progress
   */
  bool step();
  /** @brief No batches are drawn for more steps than so many, `steps()` counted. */
  void stop_at(std::uint64_t steps) noexcept;
  /**
   * @brief A checkpoint may be taken after this: trains on the batches in flight, and draws none.
   *
   * Semi-sync, whose lookups are made ahead, trains on none: what was looked up is put by, saved
   * with `checkpoint_state`, and taken up by the next step.
   */
  void drain();

  [[nodiscard]] std::uint64_t steps() const noexcept;  ///< done so far, and before `resume`
  /** @brief Goes on there: the source is sought. Nothing is in flight. */
  void resume(std::uint64_t steps, BatchPosition position);
  /**
   * @brief Goes on from a checkpoint, as `resume`, with its numbers.
   * @return of how many tables the optimizer's state begins anew
   * @throws CheckpointError as `Checkpoint::restore`
   */
  std::size_t restore(const Checkpoint& checkpoint);

  /** @brief Of all ranks. Waits for main. */
  [[nodiscard]] TrainingProgress take_progress();
  /**
   * @brief The first step of this rank whose loss was infinite or no number, counted as `steps()`.
   *
   * Losses are looked at every 1,024 steps, by `take_progress`, and by `look_at_losses`.
   */
  [[nodiscard]] std::optional<std::uint64_t> diverged_at() const noexcept;
  void look_at_losses();  ///< waits for main
  /** @brief Runs the model over what is left of an epoch, of all ranks' shares together, through an
   *         EvalPipeline of the kind that trains. Drained before; waits for main in each step.
   *  @throws InvalidIdError as `step` */
  [[nodiscard]] Evaluation evaluate(EpochSource& source);

  /** @brief The model; of several ranks every one reads it, and rank 0 gets it. */
  [[nodiscard]] std::unique_ptr<WholeState> whole_state();
  /** @brief What a checkpoint keeps: the same, and after `drain` what semi-sync carries over. */
  [[nodiscard]] std::unique_ptr<WholeState> checkpoint_state();
  /** @brief What is here of that, for `Checkpoint::restore`. */
  [[nodiscard]] ModelState state();

  /** @brief Of what is not a table: layers, position weights. Padding is counted. */
  [[nodiscard]] std::size_t dense_parameters() const noexcept;
  [[nodiscard]] SparseNN& model() noexcept;
  [[nodiscard]] ModelContext& context() noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace millrace
