#pragma once

#include <memory>
#include <string>

#include "millrace/pipeline/model/forwarding_model.hpp"
#include "millrace/pipeline/schedule/train_pipeline.hpp"

namespace millrace {

/** @brief Wraps a model so that only lookups and forward run; the rest of a step does nothing. */
class ForwardOnly final : public ForwardingModel {
 public:
  using ForwardingModel::ForwardingModel;

  void zero_gradients() override {}
  void backward(TableLookup&) override { abandon(); }  ///< frees the activations
  void update_tables(TableLookup&, Stream&) override {}
  void optimizer_step() override {}
  void swap_gradients(Buffer&) override {}
  [[nodiscard]] std::string dense_parameters_of_lookups() const override {
    return {};
  }  ///< parameters do not change
  [[nodiscard]] bool trains() const noexcept override { return false; }
};

/**
 * @brief Runs the forward pass of a model over the batches of a source; no parameter changes.
 *
 * Copies, exchanges and lookups of later batches overlap with forward in the same way as in the
 * training pipeline of the same kind.
 *
 *   EvalPipeline pipeline{PipelineKind::sparse_dist, {streams, batches, model, exchange}};
 *   while (pipeline.progress(loader)) {
 *     ... read model.logits() of this batch ...
 *   }
 *
 * fused_sparse_dist looks up the next batch during forward even if lookups read dense parameters,
 * since nothing is updated. For sources, failures and the number of batches held, see
 * TrainPipeline.
 */
class EvalPipeline {
 public:
  /**
   * @throws std::invalid_argument for semi_sync (without updates no lookup can be stale); otherwise
   * like TrainPipeline::make
   */
  EvalPipeline(PipelineKind kind, const PipelineEnvironment& environment,
               const PipelineOptions& options = {});
  EvalPipeline(const EvalPipeline&) = delete;
  EvalPipeline& operator=(const EvalPipeline&) = delete;

  /** @brief Enqueues forward of the next batch. @return false if the source has no more batches */
  bool progress(BatchSource& source) { return pipeline_->progress(source); }
  /** @brief Drops the batches in flight. */
  void reset() noexcept { pipeline_->reset(); }

  /** @brief Number of batches in flight on the device. */
  [[nodiscard]] std::size_t held() const noexcept { return pipeline_->held(); }
  /** @brief Returns the number of batches for which forward was enqueued. */
  [[nodiscard]] std::uint64_t batches() const noexcept { return pipeline_->steps(); }

 private:
  ForwardOnly model_;
  std::unique_ptr<TrainPipeline> pipeline_;
};

}  // namespace millrace
