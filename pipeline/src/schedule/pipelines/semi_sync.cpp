#include <utility>

#include "schedule/pipelines/pipeline_core.hpp"
#include "schedule/pipelines/pipelines.hpp"

namespace millrace {
namespace {

/**
 * Holds three batches. From `start_batch` on, the next batch is looked up before this batch's
 * backward. Its rows therefore lack one update, and neither waits for the other.
 *
 * The oldest batch is released as soon as forward is enqueued, and the copy of another batch takes
 * its place. The exchange of that batch on data-dist may start only after its copy. Each batch has
 * this edge (`start`), whichever stream owns its memory.
 */
class SemiSyncPipeline final : public PipelineCore {
 public:
  SemiSyncPipeline(const PipelineEnvironment& environment, const PipelineOptions& options)
      : PipelineCore(environment, options, {.between_steps = 3, .most = 3},
                     environment.streams.data_dist),
        stale_(options.stale) {}

 private:
  void fill() override {
    if (!finish_oldest_exchange()) return;
    defer_errors([&] {
      if (second() == nullptr) copy_next();
      if (second() != nullptr) finish_exchange(*second());
    });
    defer_errors([&] {
      if (in_flight(2) == nullptr) copy_next();
    });
  }

  void step(BatchInFlight& current) override {
    const bool stale = steps() >= stale_.start_batch;
    model().zero_gradients();
    defer_errors([&] {
      if (in_flight(2) != nullptr) start(*in_flight(2));
    });
    look_up_on_main(current);
    take_input(current);
    abandon_step_on_error([&] {
      forward(current);
      release_input(current);
      defer_errors([&] { copy_next(); });
      if (stale) look_up_next();
      defer_errors([&] {
        if (in_flight(2) != nullptr) finish_exchange(*in_flight(2));
      });
      backward_and_update(current, main());
      // The first stale step has no gradients of a previous step, so it updates no dense parameter.
      if (!stale || !stale_.stash_gradients || take_stashed()) model().optimizer_step();
      if (!stale) look_up_next();
    });
  }

  void look_up_on_main(BatchInFlight& flight) {
    if (flight.lookup) return;
    finish_exchange(flight);
    hand_features_to(flight, main());
    look_up(flight, main());
  }

  void look_up_next() {
    defer_errors([&] {
      if (second() != nullptr) look_up_on_main(*second());
    });
  }

  /**
   * Stashes this step's gradients and takes those of the previous step. @return false if none were
   * stashed
   */
  bool take_stashed() {
    model().swap_gradients(stash_);
    return std::exchange(stashed_, true);
  }

  void model_changed() override {
    stash_.reset();
    stashed_ = false;
  }

  [[nodiscard]] const Buffer* stashed_gradients() const noexcept override {
    return stashed_ ? &stash_ : nullptr;
  }

  void stash_gradients(Buffer gradients) override {
    if (!stale_.stash_gradients) return TrainPipeline::stash_gradients(std::move(gradients));
    stash_ = std::move(gradients);
    stashed_ = true;
  }

  const StaleOptions stale_;
  Buffer stash_;
  bool stashed_ = false;
};

}  // namespace

std::unique_ptr<TrainPipeline> make_semi_sync(const PipelineEnvironment& environment,
                                              const PipelineOptions& options) {
  return std::make_unique<SemiSyncPipeline>(environment, options);
}

}  // namespace millrace
