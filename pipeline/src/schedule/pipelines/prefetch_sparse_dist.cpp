#include "schedule/pipelines/pipeline_core.hpp"
#include "schedule/pipelines/pipelines.hpp"

namespace millrace {
namespace {

/**
 * Like SparseDist, but the rows of the next batch are copied from host memory into the cache during
 * forward and backward of the current batch.
 *
 * Tables have one user at a time: lookup i, prefetch i+1, update i, lookup i+1. The prefetch waits
 * for the lookup before it, but not for the forward after that, because its wait is enqueued
 * between the two. The update waits for the prefetch, because a row that was not in the cache
 * during lookup i may be there now. Therefore prefetch i+1 also runs after update i-1, whose rows
 * it may write back.
 */
class PrefetchSparseDistPipeline final : public PipelineCore {
 public:
  PrefetchSparseDistPipeline(const PipelineEnvironment& environment, const PipelineOptions& options)
      : PipelineCore(environment, options, {.between_steps = 2, .most = 3},
                     environment.streams.data_dist),
        prefetch_(environment.streams.named("prefetch")) {}

 private:
  void fill() override {
    if (!finish_oldest_exchange()) return;
    prefetch_rows(*oldest());
    defer_errors([&] {
      if (second() == nullptr) copy_next();
      if (second() != nullptr) start(*second());
    });
  }

  void step(BatchInFlight& current) override {
    model().zero_gradients();
    take_rows(current);
    defer_errors([&] { copy_next(); });
    defer_errors([&] {
      if (second() != nullptr) finish_exchange(*second());
    });
    abandon_step_on_error([&] {
      look_up(current, main());
      // Enqueued between lookup and forward: the prefetch waits for the lookup only, and overlaps
      // with forward and backward.
      if (second() != nullptr) order_tables(prefetch_);
      forward(current);
      defer_errors([&] {
        if (second() != nullptr) prefetch_rows(*second());
      });
      backward_and_update(current, main());
      model().optimizer_step();
    });
    defer_errors([&] {
      if (in_flight(2) != nullptr) start(*in_flight(2));
    });
  }

  void prefetch_rows(BatchInFlight& flight) {
    if (!flight.prefetched) {
      finish_exchange(flight);
      hand_features_to(flight, prefetch_);
      prefetch(flight, prefetch_);
    }
    if (coarse() || flight.rows_near.recorded()) return;
    main().device().record(flight.rows_near, prefetch_);
  }

  /** Makes main wait for the rows, and so for the features, for which the prefetch has waited. */
  void take_rows(BatchInFlight& current) {
    if (coarse()) {
      main().wait_stream(prefetch_);
    } else {
      main().wait(current.rows_near);
    }
    current.features->record_use(main());
    take_input(current);
  }

  Stream& prefetch_;
};

}  // namespace

std::unique_ptr<TrainPipeline> make_prefetch_sparse_dist(const PipelineEnvironment& environment,
                                                         const PipelineOptions& options) {
  return std::make_unique<PrefetchSparseDistPipeline>(environment, options);
}

}  // namespace millrace
