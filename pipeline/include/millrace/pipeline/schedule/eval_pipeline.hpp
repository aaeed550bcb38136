#pragma once

#include <memory>
#include <string>

#include "millrace/pipeline/model/forwarding_model.hpp"
#include "millrace/pipeline/schedule/train_pipeline.hpp"

namespace millrace {

/** @brief A model that only looks up and goes forward: the rest of a step does nothing. */
class ForwardOnly final : public ForwardingModel {
 public:
  using ForwardingModel::ForwardingModel;

  void zero_gradients() override {}
  void backward(TableLookup&) override { abandon(); }  ///< activations go
  void update_tables(TableLookup&, Stream&) override {}
  void optimizer_step() override {}
  void swap_gradients(Buffer&) override {}
  std::string dense_parameters_of_lookups() const override { return {}; }  ///< that change
  bool trains() const noexcept override { return false; }
};

/**
 * @brief Runs a model over the batches of a source, as the pipeline of the same kind trains on
 *        them: copies, exchanges, and lookups of later batches under way. Parameters stay.
 *
 *   EvalPipeline pipeline{PipelineKind::sparse_dist, {streams, batches, model, exchange}};
 *   while (pipeline.progress(loader)) {
 *     ... model.logits() are this batch's ...
 *   }
 *
 * With fused_sparse_dist the next batch is looked up during forward, whatever the lookups read:
 * nothing is updated. What TrainPipeline says of sources, failures and depth holds here.
 */
class EvalPipeline {
 public:
  /** @throws std::invalid_argument for semi_sync, which has nothing to be stale by; as
   *         TrainPipeline::make */
  EvalPipeline(PipelineKind kind, const PipelineSetting& setting,
               const PipelineOptions& options = {});
  EvalPipeline(const EvalPipeline&) = delete;
  EvalPipeline& operator=(const EvalPipeline&) = delete;

  /** @brief Enqueues forward of the next batch. @return false when there is none */
  bool progress(BatchSource& source) { return pipeline_->progress(source); }
  /** @brief Gives up the batches in flight. */
  void reset() noexcept { pipeline_->reset(); }

  [[nodiscard]] std::size_t held() const noexcept { return pipeline_->held(); }
  [[nodiscard]] std::uint64_t batches() const noexcept { return pipeline_->steps(); }

 private:
  ForwardOnly model_;
  std::unique_ptr<TrainPipeline> pipeline_;
};

}  // namespace millrace
