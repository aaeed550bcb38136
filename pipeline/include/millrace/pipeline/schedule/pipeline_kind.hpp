#pragma once

#include <array>
#include <string_view>

namespace millrace {

/** @brief The order of operations in a step; train_pipeline.hpp describes each kind. */
enum class PipelineKind {
  sparse_dist,
  base,
  sparse_dist_lite,
  fused_sparse_dist,
  semi_sync,
  prefetch_sparse_dist
};

inline constexpr std::array kPipelineKinds{
    PipelineKind::sparse_dist,       PipelineKind::base,      PipelineKind::sparse_dist_lite,
    PipelineKind::fused_sparse_dist, PipelineKind::semi_sync, PipelineKind::prefetch_sparse_dist};

/** @brief The name that users write: "sparse-dist" for `sparse_dist`. */
[[nodiscard]] std::string_view to_string(PipelineKind kind) noexcept;
/** @brief What distinguishes the kind, in one line. */
[[nodiscard]] std::string_view summary_of(PipelineKind kind) noexcept;
/** @throws std::invalid_argument that lists the names there are */
[[nodiscard]] PipelineKind parse_pipeline_kind(std::string_view name);

}  // namespace millrace
