#include <fmt/format.h>

#include <stdexcept>

#include "schedule/pipelines/pipeline_core.hpp"
#include "schedule/pipelines/pipelines.hpp"

namespace millrace {
namespace {

Stream& lookup_stream(const PipelineEnvironment& environment, const LookupOptions& options) {
  switch (options.stream) {
    case LookupStream::main:
      return environment.streams.main;
    case LookupStream::data_dist:
      return environment.streams.data_dist;
    case LookupStream::own:
      break;
  }
  return environment.streams.named("lookup");
}

/**
 * Like SparseDist, but looks the next batch up while the dense optimizer runs. The tables are also
 * updated on the lookup's stream, after backward. Each lookup therefore follows the previous update
 * in stream order.
 */
class FusedSparseDistPipeline final : public PipelineCore {
 public:
  FusedSparseDistPipeline(const PipelineEnvironment& environment, const PipelineOptions& options)
      : PipelineCore(environment, options, {.between_steps = 2, .most = 3},
                     environment.streams.data_dist),
        lookup_(options.lookup),
        look_up_on_(lookup_stream(environment, lookup_)) {
    if (lookup_.order_after_dense && lookup_.position == LookupPosition::before_optimizer) {
      throw std::invalid_argument{
          "a lookup that is enqueued before the optimizer cannot be ordered after it: use the "
          "position after-optimizer or after-data-dist"};
    }
    check(environment.model);
  }

 private:
  void check(const TrainModel& model) const override {
    const std::string dense = model.dense_parameters_of_lookups();
    if (dense.empty() || lookup_.order_after_dense) return;
    throw std::invalid_argument{fmt::format(
        "fused-sparse-dist looks up the next batch while the dense optimizer updates {}, which "
        "lookups read: order lookups after the dense optimizer (--order-lookup-after-dense), or "
        "use sparse-dist",
        dense)};
  }

  void fill() override { fill_two(); }

  void step(BatchInFlight& current) override {
    // after-optimizer: the lookup comes before all other work of the step. before-optimizer: the
    // previous step has already made it.
    if (lookup_.position != LookupPosition::after_data_dist) look_up_ahead(current);
    model().zero_gradients();
    defer_errors([&] {
      if (second() != nullptr) start(*second());
    });
    defer_errors([&] { copy_next(); });
    // after-data-dist: exchanges come first. Does nothing for the other positions.
    look_up_ahead(current);
    take_lookup(current);
    abandon_step_on_error([&] {
      forward(current);
      defer_errors([&] {
        if (second() != nullptr) finish_exchange(*second());
      });
      backward_and_update(current, look_up_on_);
      if (lookup_.position == LookupPosition::before_optimizer) {
        defer_errors([&] {
          if (second() != nullptr) look_up_ahead(*second());
        });
      }
      // The update adds the gradients of position weights and of data-parallel tables, which the
      // optimizer applies.
      if (lookup_.order_after_dense && on_side()) main().wait_stream(look_up_on_);
      model().optimizer_step();
    });
  }

  void look_up_ahead(BatchInFlight& flight) {
    if (!flight.is_looked_up) {
      finish_exchange(flight);
      hand_features_to(flight, look_up_on_);
      // This lookup reads parameters that the optimizer of the previous step updates on main.
      if (lookup_.order_after_dense && on_side()) look_up_on_.wait_stream(main());
      look_up(flight, look_up_on_);
    }
    // With coarse waits main waits for the whole stream (take_lookup) and needs no event.
    if (coarse() || !on_side() || flight.looked_up.recorded()) return;
    main().device().record(flight.looked_up, look_up_on_);
  }

  void take_lookup(BatchInFlight& current) {
    if (on_side()) {
      if (coarse()) {
        main().wait_stream(look_up_on_);
      } else {
        main().wait(current.looked_up);
      }
    }
    take_input(current);
  }

  [[nodiscard]] bool on_side() const { return look_up_on_.id() != main().id(); }

  const LookupOptions lookup_;
  Stream& look_up_on_;
};

}  // namespace

std::unique_ptr<TrainPipeline> make_fused_sparse_dist(const PipelineEnvironment& environment,
                                                      const PipelineOptions& options) {
  return std::make_unique<FusedSparseDistPipeline>(environment, options);
}

}  // namespace millrace
