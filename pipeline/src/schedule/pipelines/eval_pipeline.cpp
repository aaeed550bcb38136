#include "millrace/pipeline/schedule/eval_pipeline.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace millrace {
namespace {

std::unique_ptr<TrainPipeline> make(PipelineKind kind, const PipelineSetting& setting,
                                    TrainModel& model, const PipelineOptions& options) {
  if (traits_of(kind).evaluated_by) {
    throw std::invalid_argument{fmt::format(
        "{} is for training: without updates no lookup is stale; use {} or fused-sparse-dist",
        to_string(kind), to_string(*traits_of(kind).evaluated_by))};
  }
  return TrainPipeline::make(kind,
                             {.streams = setting.streams,
                              .batches = setting.batches,
                              .model = model,
                              .exchange = setting.exchange,
                              .observer = setting.observer},
                             options);
}

}  // namespace

EvalPipeline::EvalPipeline(PipelineKind kind, const PipelineSetting& setting,
                           const PipelineOptions& options)
    : model_(setting.model), pipeline_(make(kind, setting, model_, options)) {}

}  // namespace millrace
