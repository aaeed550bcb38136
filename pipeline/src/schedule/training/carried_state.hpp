#pragma once

#include <optional>
#include <string>
#include <vector>

#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/model/checkpoint.hpp"
#include "millrace/pipeline/model/sparse_nn.hpp"
#include "millrace/pipeline/schedule/train_pipeline.hpp"
#include "millrace/pipeline/sharding/sharded_model.hpp"

namespace millrace {

/**
 * @brief The state that semi-sync carries from one step to the next in addition to the model: the
 *        lookup of the next batch, which lacks this step's update, and stashed dense gradients.
 *
 * With it a run that was saved or resumed ends with the same bits as an uninterrupted run. For
 * other pipelines it is empty. Its tensors in a checkpoint: "pipeline.pooled" for the examples of
 * all ranks; "pipeline.values.NAME" of rank 0; "pipeline.stash.NAME" of each rank in turn.
 */
class CarriedState {
 public:
  /** @param group  nullptr for one rank */
  CarriedState(SparseNN& model, ModelContext& context, TrainPipeline& pipeline,
               ProcessGroup* group);

  /** @brief Takes the lookup that was made ahead, so that the model can be saved. Call it between
   *         steps. */
  void take();
  /** @brief Returns the lookup to the model. Call it just before the next step. */
  void give_back();
  void drop() noexcept { ahead_.reset(); }

  /** @brief The tensors for a checkpoint. Every rank calls this. */
  [[nodiscard]] std::vector<TensorOfRanks> tensors() const;
  /** @brief Restores the state from a checkpoint, which may be of another number of ranks. Blocks
   *         until main is idle.
   *  @param stashes  whether the pipeline stashes gradients; otherwise they are ignored */
  void restore(const Checkpoint& checkpoint, bool stashes);

 private:
  [[nodiscard]] unsigned rank() const { return group_ == nullptr ? 0 : group_->rank(); }
  [[nodiscard]] unsigned ranks() const { return group_ == nullptr ? 1 : group_->size(); }
  [[nodiscard]] std::vector<std::size_t> of_all(std::size_t number) const;
  [[nodiscard]] Array<float> room(std::size_t size) const;
  void restore_stash(const Checkpoint& checkpoint);
  void restore_lookup(const Checkpoint& checkpoint);
  void upload(const std::vector<float>& numbers, float* to) const;

  SparseNN& model_;
  ModelContext& context_;
  TrainPipeline& pipeline_;
  ProcessGroup* const group_;
  std::optional<AheadLookup> ahead_;
};

}  // namespace millrace
