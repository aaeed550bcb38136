#pragma once

#include <memory>

#include "millrace/pipeline/schedule/train_pipeline.hpp"

namespace millrace {

[[nodiscard]] std::unique_ptr<TrainPipeline> make_fused_sparse_dist(const PipelineSetting& setting,
                                                                    const PipelineOptions& options);

[[nodiscard]] std::unique_ptr<TrainPipeline> make_semi_sync(const PipelineSetting& setting,
                                                            const PipelineOptions& options);

[[nodiscard]] std::unique_ptr<TrainPipeline> make_prefetch_sparse_dist(
    const PipelineSetting& setting, const PipelineOptions& options);

}  // namespace millrace
