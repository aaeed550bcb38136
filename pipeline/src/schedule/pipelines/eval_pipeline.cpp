#include "millrace/pipeline/schedule/eval_pipeline.hpp"

#include <stdexcept>

namespace millrace {
namespace {

std::unique_ptr<TrainPipeline> make(PipelineKind kind, const PipelineSetting& setting,
                                    TrainModel& model, const PipelineOptions& options) {
  if (kind == PipelineKind::semi_sync) {
    throw std::invalid_argument{
        "semi-sync is for training: without updates no lookup is stale; use sparse-dist "
        "or fused-sparse-dist"};
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
