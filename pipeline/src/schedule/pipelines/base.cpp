#include "schedule/pipelines/pipeline_core.hpp"
#include "schedule/pipelines/pipelines.hpp"

namespace millrace {
namespace {

/**
 * The pipelines base and sparse-dist-lite. base has one batch on the device: backward needs only
 * data that the model keeps, so the batch is released after forward, and its memory serves the next
 * one. sparse-dist-lite keeps each batch until its step ends, like TorchRec's pipeline of that
 * name.
 */
class BasePipeline final : public PipelineCore {
 public:
  BasePipeline(const PipelineEnvironment& environment, const PipelineOptions& options,
               bool keeps_batch)
      : PipelineCore(environment, options, {.between_steps = 1, .most = keeps_batch ? 2U : 1U},
                     environment.streams.main),
        keeps_batch_(keeps_batch) {}

 private:
  void fill() override {
    if (oldest() == nullptr) copy_next();
  }

  void step(BatchInFlight& current) override {
    if (!keeps_batch_) defer_errors([&] { draw(); });
    model().zero_gradients();
    start(current);
    receive(current);
    arrange(current);
    abandon_step_on_error([&] {
      forward(current);
      if (!keeps_batch_) release_input(current);
      backward_and_update(current, main());
      // The copy comes before the optimizer step and overlaps with it.
      defer_errors([&] { copy_next(); });
      model().optimizer_step();
    });
  }

  const bool keeps_batch_;
};

}  // namespace

MadePipeline make_base(const PipelineEnvironment& environment, const PipelineOptions& options) {
  return std::make_unique<BasePipeline>(environment, options, false);
}

MadePipeline make_sparse_dist_lite(const PipelineEnvironment& environment,
                                   const PipelineOptions& options) {
  return std::make_unique<BasePipeline>(environment, options, true);
}

}  // namespace millrace
