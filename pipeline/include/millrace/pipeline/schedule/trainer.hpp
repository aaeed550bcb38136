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
  double auc = 0;   ///< area under the ROC curve; see area_under_curve
};

/** @brief Steps, examples and loss since the previous call of `Trainer::take_progress`. */
struct TrainingProgress {
  std::uint64_t steps = 0, examples = 0;
  double loss = 0;  ///< mean over the examples, with the parameters at the time of each step
};

/** @brief One of several ranks that train a model together. */
struct TrainingRank {
  ProcessGroup& group;  ///< uses the trainer's device; outlives the trainer
  ShardingPlan plan;
};

/**
 * @brief Trains a SparseNN on the batches of a source, with the pipeline in the device's options.
 *
 * All exact pipelines (all kinds except semi_sync), copy strategies, kinds of waits and allocators
 * give the same weights, bit for bit. After an exception of the model the trainer cannot be used.
 *
 * With several ranks each rank has a trainer and a share of every batch (ShareSource). All ranks
 * make the same calls in the same order. If one rank throws, the others get a CollectiveError.
 */
class Trainer {
 public:
  /**
   * @param device  outlives the trainer
   * @param model   the model's configuration
   * @param source  the training data; outlives the trainer
   * @param rank    std::nullopt if this process trains the whole model alone
   * @throws std::invalid_argument for a model that cannot be made; see SparseNN and ShardedModel
   */
  Trainer(TrainingDevice& device, const SparseNNConfig& model, EpochSource& source,
          const std::optional<TrainingRank>& rank = std::nullopt);
  ~Trainer();

  /**
   * @brief Enqueues one training step.
   * @return false at the end of the epoch, or when the limit set by `stop_at` is reached
   * @throws InvalidIdError if an id is not a row of the model's table
   * @throws the exceptions of TrainPipeline::progress
   */
  bool step();
  /** @brief Limits the total number of steps, including those before `resume`. */
  void stop_at(std::uint64_t steps) noexcept;
  /**
   * @brief Finishes the batches in flight and draws no others, so that a checkpoint can be taken.
   *
   * Semi-sync trains on none of them. It keeps the lookup that it made ahead: `checkpoint_state`
   * includes it, and the next step uses it.
   */
  void drain();

  /** @brief Steps done so far, including those before `resume`. */
  [[nodiscard]] std::uint64_t steps() const noexcept;
  /**
   * @brief Continues at another position; the source seeks to it. No batch may be in flight.
   * @param steps  the new value of `steps()`
   */
  void resume(std::uint64_t steps, BatchPosition position);
  /**
   * @brief Restores the model from a checkpoint, and resumes at its step and position.
   * @return number of tensors of optimizer state that were set to zero, because the checkpoint was
   * made with another optimizer and does not have them
   * @throws CheckpointError like `Checkpoint::restore`
   */
  std::size_t restore(const Checkpoint& checkpoint);

  /** @brief Progress of all ranks together since the previous call. Blocks until main is idle. */
  [[nodiscard]] TrainingProgress take_progress();
  /**
   * @brief Returns the first step of this rank whose loss was infinite or NaN, numbered as in
   * `steps()`.
   *
   * The losses are checked every 1,024 steps, by `take_progress` and by `check_losses`.
   */
  [[nodiscard]] std::optional<std::uint64_t> diverged_at() const noexcept;
  /** @brief Checks the losses for `diverged_at`. Blocks until main is idle. */
  void check_losses();
  /**
   * @brief Evaluates the model on the rest of the source's epoch, over the shares of all ranks.
   *
   * Uses an EvalPipeline of the training pipeline's kind. Call `drain` before. Blocks until main is
   * idle in each step.
   * @throws InvalidIdError like `step`
   */
  [[nodiscard]] Evaluation evaluate(EpochSource& source);

  /** @brief Returns the state of the whole model. Every rank must read it; rank 0 gets the data. */
  [[nodiscard]] std::unique_ptr<WholeState> whole_state();
  /**
   * @brief Returns the state for a checkpoint: the model and, after `drain`, the lookup that
   * semi-sync kept.
   */
  [[nodiscard]] std::unique_ptr<WholeState> checkpoint_state();
  /** @brief Returns this rank's part of that state, for `Checkpoint::restore`. */
  [[nodiscard]] ModelState state();

  /** @brief Number of parameters outside the tables (layers, position weights), with padding. */
  [[nodiscard]] std::size_t dense_parameters() const noexcept;
  [[nodiscard]] SparseNN& model() noexcept;
  [[nodiscard]] ModelContext& context() noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace millrace
