#include "schedule/pipelines/pipeline_core.hpp"
#include "schedule/pipelines/pipelines.hpp"

namespace millrace {
namespace {

class BasePipeline final : public PipelineCore {
 public:
  BasePipeline(const PipelineSetting& setting, const PipelineOptions& options)
      : PipelineCore(setting, options, 1, setting.streams.main) {}

 private:
  void fill() override {
    if (oldest() == nullptr) copy_next();
  }

  // The batch goes when forward is enqueued: backward needs no more than what the model keeps.
  void step(BatchInFlight& current) override {
    defer_errors([&] { draw(); });
    model().zero_gradients();
    start(current);
    receive(current);
    arrange(current);
    abandon_step_on_error([&] {
      forward(current);
      release_input(current);
      backward_and_update(current, main());
      defer_errors([&] { copy_next(); });
      model().optimizer_step();
    });
  }
};

}  // namespace

std::unique_ptr<TrainPipeline> make_base(const PipelineSetting& setting,
                                         const PipelineOptions& options) {
  return std::make_unique<BasePipeline>(setting, options);
}

}  // namespace millrace
