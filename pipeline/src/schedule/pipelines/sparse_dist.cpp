#include "schedule/pipelines/pipeline_core.hpp"
#include "schedule/pipelines/pipelines.hpp"

namespace millrace {
namespace {

// While main computes on one batch, data-dist exchanges the features of the next. So neither the
// exchange nor the host's wait for its sizes delays main.
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
    // This wait includes the copy of the batch, because its exchange waited for the copy.
    if (coarse()) main().wait_stream(data_dist_);
    take_input(current);
    defer_errors([&] {
      if (second() != nullptr) start(*second());
    });
    defer_errors([&] { copy_next(); });
    // Comes after start and copy of later batches, as in TorchRec. With coarse waits main therefore
    // waits for these, too; precise waits avoid that.
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
