#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace millrace {

/**
 * @brief The order of operations in a step; train_pipeline.hpp describes each kind.
 *
 * A new kind is an enumerator here, a row in src/schedule/pipelines/pipelines.cpp, and a source
 * file with its class. No other code in the libraries and the program distinguishes kinds by name:
 * it reads `traits_of`.
 */
enum class PipelineKind {
  sparse_dist,
  base,
  sparse_dist_lite,
  fused_sparse_dist,
  semi_sync,
  prefetch_sparse_dist
};

/** @brief All kinds, in the order of PipelineKind. */
// NOLINTNEXTLINE(readability-identifier-naming): a constant, though not constexpr here
extern const std::span<const PipelineKind> kPipelineKinds;

/** @brief The properties of a kind of pipeline. */
struct PipelineTraits {
  std::string_view name;        ///< name for users: "sparse-dist"
  std::string_view summary;     ///< what distinguishes the kind, in one line
  bool lookup_options = false;  ///< `PipelineOptions::lookup` applies
  /// Lookups are made before the step of their batch and lack an update. `PipelineOptions::stale`
  /// applies to these kinds only.
  bool stale = false;
  bool for_cached_tables = false;  ///< its prefetches have an effect only for cached tables
  /// The kind that evaluates instead of this one; nothing: this one can evaluate.
  std::optional<PipelineKind> evaluated_by = std::nullopt;
};

[[nodiscard]] const PipelineTraits& traits_of(PipelineKind kind) noexcept;
/** @brief Returns the name in the traits of the kind. */
[[nodiscard]] std::string_view to_string(PipelineKind kind) noexcept;
/** @throws std::invalid_argument for an unknown name; the message lists the known ones */
[[nodiscard]] PipelineKind parse_pipeline_kind(std::string_view name);

}  // namespace millrace
