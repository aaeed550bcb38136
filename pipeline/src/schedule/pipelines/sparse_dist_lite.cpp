#include "schedule/pipelines/pipeline_core.hpp"
#include "schedule/pipelines/pipelines.hpp"

namespace millrace {
namespace {

class SparseDistLitePipeline final : public PipelineCore {
 public:
  SparseDistLitePipeline(const PipelineSetting& setting, const PipelineOptions& options)
      : PipelineCore(setting, options, 2, setting.streams.main) {}

 private:
  void fill() override {
    if (oldest() == nullptr) copy_next();
  }

  void step(BatchInFlight& current) override {
    model().zero_gradients();
    start(current);
    receive(current);
    arrange(current);
    abandon_step_on_error([&] {
      forward(current);
      backward_and_update(current, main());
      defer_errors([&] { copy_next(); });
      model().optimizer_step();
    });
  }
};

}  // namespace

std::unique_ptr<TrainPipeline> make_sparse_dist_lite(const PipelineSetting& setting,
                                                     const PipelineOptions& options) {
  return std::make_unique<SparseDistLitePipeline>(setting, options);
}

}  // namespace millrace
