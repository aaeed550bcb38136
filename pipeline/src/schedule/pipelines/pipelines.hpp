#pragma once

#include <memory>
#include <string_view>

#include "millrace/pipeline/schedule/train_pipeline.hpp"

namespace millrace {

/**
 * @brief One kind of pipeline. To add one: a source file with its class and its `make_...`, an
 *        enumerator in pipeline_kind.hpp, and a row in pipelines.cpp.
 */
struct PipelineRow {
  PipelineKind kind;
  PipelineTraits traits;
  std::unique_ptr<TrainPipeline> (*make)(const PipelineEnvironment&, const PipelineOptions&);
  std::string_view own_stream = "";  ///< name of a stream that only this kind has; "": none
  int side_priority = -1;            ///< priority of the streams copy and data-dist; main has 0
};

[[nodiscard]] const PipelineRow& pipeline_row(PipelineKind kind) noexcept;

/// @name Functions that make a pipeline of each kind. Defined in the file of that kind
/// (sparse-dist-lite: base.cpp), called through its row
/// @{
using MadePipeline = std::unique_ptr<TrainPipeline>;
[[nodiscard]] MadePipeline make_base(const PipelineEnvironment&, const PipelineOptions&);
[[nodiscard]] MadePipeline make_sparse_dist_lite(const PipelineEnvironment&,
                                                 const PipelineOptions&);
[[nodiscard]] MadePipeline make_sparse_dist(const PipelineEnvironment&, const PipelineOptions&);
[[nodiscard]] MadePipeline make_fused_sparse_dist(const PipelineEnvironment&,
                                                  const PipelineOptions&);
[[nodiscard]] MadePipeline make_semi_sync(const PipelineEnvironment&, const PipelineOptions&);
[[nodiscard]] MadePipeline make_prefetch_sparse_dist(const PipelineEnvironment&,
                                                     const PipelineOptions&);
/// @}

}  // namespace millrace
