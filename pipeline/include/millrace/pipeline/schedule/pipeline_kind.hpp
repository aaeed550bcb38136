#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace millrace {

/**
 * @brief The order of operations in a step; train_pipeline.hpp describes each kind.
 *
 * A new kind is an enumerator here, a row in src/schedule/pipelines/pipelines.cpp, and a source
 * file with its class. Nothing else in the libraries and the program names a kind to find out what
 * it does: `traits_of` says it.
 */
enum class PipelineKind {
  sparse_dist,
  base,
  sparse_dist_lite,
  fused_sparse_dist,
  semi_sync,
  prefetch_sparse_dist
};

/** @brief All kinds, in the order of PipelineKind: those of the rows. */
// NOLINTNEXTLINE(readability-identifier-naming): a constant, though not constexpr here
extern const std::span<const PipelineKind> kPipelineKinds;

/** @brief What is known of a kind of pipeline. */
struct PipelineTraits {
  std::string_view name;        ///< that users write: "sparse-dist"
  std::string_view summary;     ///< what distinguishes the kind, in one line
  bool lookup_options = false;  ///< `PipelineOptions::lookup` applies
  /// Lookups are made before the step of their batch and lack an update, as
  /// `PipelineOptions::stale` says, which applies to these kinds only.
  bool stale = false;
  bool for_cached_tables = false;  ///< does something more than others only for cached tables
  /// The kind that evaluates in its place; nothing: it can evaluate.
  std::optional<PipelineKind> evaluated_by = std::nullopt;
};

[[nodiscard]] const PipelineTraits& traits_of(PipelineKind kind) noexcept;
/** @brief The name in its traits. */
[[nodiscard]] std::string_view to_string(PipelineKind kind) noexcept;
/** @throws std::invalid_argument for an unknown name; the message lists the known ones */
[[nodiscard]] PipelineKind parse_pipeline_kind(std::string_view name);

}  // namespace millrace
