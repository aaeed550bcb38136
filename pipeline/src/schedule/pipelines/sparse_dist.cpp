#include "schedule/pipelines/pipeline_core.hpp"
#include "schedule/pipelines/pipelines.hpp"

namespace millrace {
namespace {

// While main computes on one batch, data-dist exchanges the features of the next. Neither the
// exchange nor the host's wait for its sizes then holds up main.
class SparseDistPipeline final : public PipelineCore {
 public:
  SparseDistPipeline(const PipelineEnvironment& environment, const PipelineOptions& options)
      : PipelineCore(environment, options, {.between_steps = 2, .most = 3},
                     environment.streams.data_dist),
        data_dist_(environment.streams.data_dist) {}

 private:
  void fill() override { fill_two(); }

  void step(BatchInFlight& current) override {
    model().zero_gradients();
    // This wait includes the copy of the batch, for which its exchange has waited.
    if (coarse()) main().wait_stream(data_dist_);
    take_input(current);
    defer_errors([&] {
      if (second() != nullptr) start(*second());
    });
    defer_errors([&] { copy_next(); });
    // After start and copy of later batches. With coarse waits main therefore waits for these as
    // well: that is TorchRec's order, and what precise waits avoid.
    hand_features_to(current, main());
    abandon_step_on_error([&] {
      forward(current);
      defer_errors([&] {
        // The host waits for the sizes here, while the device has forward to run.
        if (second() != nullptr) finish_exchange(*second());
      });
      backward_and_update(current, main());
      model().optimizer_step();
    });
  }

  Stream& data_dist_;
};

}  // namespace

std::unique_ptr<TrainPipeline> make_sparse_dist(const PipelineEnvironment& environment,
                                                const PipelineOptions& options) {
  return std::make_unique<SparseDistPipeline>(environment, options);
}

}  // namespace millrace
