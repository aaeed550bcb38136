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
 * @brief What semi-sync needs of a step that is over, beside the model: the lookup of the next
 *        batch, which lacks this step's update, and stashed dense gradients. With it a run that was
 *        saved, or that goes on from a checkpoint, ends with the bits of one that was not.
 *
 * Of other pipelines it is empty. As a checkpoint has it: "pipeline.pooled", of the examples of all
 * ranks; "pipeline.values.NAME", of rank 0; "pipeline.stash.NAME", of each rank in turn.
 */
class CarriedState {
 public:
  /** @param group  null: there is one rank */
  CarriedState(SparseNN& model, ModelContext& context, TrainPipeline& pipeline,
               ProcessGroup* group);

  /** @brief Between steps: takes the lookup that was made ahead, so that the model may be saved. */
  void take();
  /** @brief Gives it back to the model, just before the next step. */
  void give_back();
  void drop() noexcept { ahead_.reset(); }

  /** @brief What a checkpoint keeps of it. Every rank calls this. */
  [[nodiscard]] std::vector<TensorOfRanks> tensors() const;
  /** @brief What a checkpoint has of it; also of another number of ranks. Waits for main.
   *  @param stashes  whether the pipeline stashes gradients; if not, they are left out */
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
