#include "millrace/pipeline/schedule/eval_pipeline.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace millrace {
namespace {

std::unique_ptr<TrainPipeline> make(PipelineKind kind, const PipelineEnvironment& environment,
                                    TrainModel& model, const PipelineOptions& options) {
  if (traits_of(kind).evaluated_by) {
    throw std::invalid_argument{fmt::format(
        "{} is for training: without updates no lookup is stale; use {} or fused-sparse-dist",
        to_string(kind), to_string(*traits_of(kind).evaluated_by))};
  }
  return TrainPipeline::make(kind,
                             {.streams = environment.streams,
                              .batches = environment.batches,
                              .model = model,
                              .exchange = environment.exchange,
                              .observer = environment.observer},
                             options);
}

}  // namespace

EvalPipeline::EvalPipeline(PipelineKind kind, const PipelineEnvironment& environment,
                           const PipelineOptions& options)
    : model_(environment.model), pipeline_(make(kind, environment, model_, options)) {}

}  // namespace millrace
