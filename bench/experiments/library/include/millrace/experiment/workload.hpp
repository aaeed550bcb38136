#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/pipeline/data/model_input.hpp"
#include "millrace/pipeline/model/model_description.hpp"
#include "millrace/pipeline/schedule/pipeline_kind.hpp"

namespace millrace::experiment {

/** @brief Default link rate for `millrace footprint`: that of an H100 or H200 in each direction. */
inline constexpr double kExchangeGbPerS = 450;

/** @brief An additional embedding table with its own size; one unweighted feature uses it. */
struct ExtraTable {
  std::size_t num_embeddings = 0;
  std::size_t embedding_dim = 0;
  std::size_t element_bytes = 4;
};

/**
 * @brief The work of one rank of a training job in a step.
 *
 * docs/workloads.md describes the keys of the JSON form, their defaults, and the derived values. A
 * batch has two keyed jagged tensors (features without and with weights), dense float features and
 * labels. Ids and lengths are int64. Everything else is float32 unless a table says otherwise.
 */
struct Workload {
  std::string name;
  std::string description;

  PipelineKind shape = PipelineKind::sparse_dist;
  std::size_t num_batches = 20;  ///< steps of a run
  std::size_t batch_size = 0;    ///< samples per rank
  std::size_t world_size = 1;    ///< number of ranks that share the tables

  std::size_t num_float_features = 0;
  std::size_t float_feature_bytes = 4;  ///< bytes of a dense feature: 1, 2 or 4
  std::size_t num_unweighted_features = 0;
  std::size_t num_weighted_features = 0;
  double feature_pooling_avg = 1;        ///< mean ids per feature and sample (normal, at least 1)
  double feature_pooling_std = 0;        ///< standard deviation between samples
  double feature_pooling_variation = 0;  ///< relative deviation of the mean between batches

  std::size_t base_row_size = 0;          ///< rows per table
  std::size_t embedding_feature_dim = 0;  ///< columns per table
  std::vector<ExtraTable> additional_tables;

  std::size_t activations = 0;  ///< bytes that forward keeps for backward
  std::size_t layers = 8;       ///< layers of the over-arch
  double compute_to_copy = 1;   ///< compute time of a step divided by the time of its batch's copy
  std::optional<double> compute_ms{};  ///< compute time of a step; replaces compute_to_copy
  unsigned run_ahead = 0;  ///< maximum queued device operations; 0: a host sync in each step
  /// Number of batches that are copied to the device earlier than the loop needs them.
  std::size_t copies_ahead = 0;
  double host_us = 0;  ///< host time for each operation that it enqueues

  /// @name Additions of `millrace footprint` to a plain step
  /// @{
  std::optional<std::size_t> parameters{};  ///< bytes of dense parameters; default: from widths
  std::optional<std::size_t> gradients{};   ///< bytes of their gradients; default: the same
  std::size_t optimizer_state = 0;          ///< bytes of the dense optimizer's state
  /// Fraction of the activations of dense layers that is proportional to the ids of the batch.
  double activations_by_ids = 0;
  double layer_ratio = 0.85;  ///< activations of a layer divided by those of the previous layer
  /// Forward keeps the output of every n-th layer only, and backward recomputes the others; 0: keep
  /// all.
  std::size_t checkpoint_every = 0;
  std::size_t accumulate = 1;          ///< batches per step of the dense optimizer
  std::size_t evaluate_every = 0;      ///< batches between evaluations; 0: no evaluation
  std::size_t evaluation_batches = 1;  ///< forward passes per evaluation
  /// Bytes of sharded parameters. Forward and backward each gather them layer by layer on a
  /// separate stream. Backward reduces as many bytes of gradients on that stream. 0: no sharded
  /// parameters.
  std::size_t gathered = 0;
  std::size_t gathers_ahead = 1;  ///< layers gathered ahead of the layer that main computes
  /// Every n-th layer is offloaded: forward copies its kept activations to pinned host memory, and
  /// backward copies them back, both on a separate stream. The last layer stays. 0: no layer.
  std::size_t offload_every = 0;
  std::size_t offloads_ahead = 1;  ///< layers copied back ahead of the layer that main needs
  /// @}

  /// Rate at which this rank sends and receives, in 10^9 bytes/s. Default: kExchangeGbPerS for
  /// `millrace footprint`, the device's link for `millrace pipelines`.
  std::optional<double> exchange_gb_per_s{};
  double exchange_latency_us = 0;  ///< latency of each all-to-all, in microseconds

  /// Layers, interaction and optimizers of the model that `millrace pipelines` runs. `activations`,
  /// `layers` and `compute_to_copy` are then ignored, because they follow from the model.
  std::optional<ModelDescription> model;

  /** @brief Bytes of a batch with average lengths. */
  [[nodiscard]] std::size_t mean_batch_bytes() const;
  /** @brief This workload with the batch size whose `mean_batch_bytes` is nearest to `batch_bytes`.
   */
  [[nodiscard]] Workload scaled_to(std::size_t batch_bytes) const;
  /** @brief Dense features per sample for InputShape, whose elements are float32. Their bytes are
   *         those of this workload's dense features, rounded up. */
  [[nodiscard]] std::size_t float32_features() const;
  /** @brief Bytes of this rank's part of the embedding tables. */
  [[nodiscard]] std::size_t table_bytes() const;

  /**
   * @brief The model's configuration: one table per feature, with the workload's width and rows.
   *        All elements are float32, even if a table says otherwise.
   * @throws std::invalid_argument if the workload has no model
   */
  [[nodiscard]] SparseNNConfig model_config(std::uint64_t seed) const;

  /** @brief A built-in workload. @throws std::invalid_argument that lists the known names */
  [[nodiscard]] static Workload named(std::string_view name);
  /** @brief Names of the built-in workloads. */
  [[nodiscard]] static std::vector<std::string> names();

  /**
   * @brief Parses a workload.
   * @param origin  name of the text in errors (for instance a file name)
   * @throws std::invalid_argument with the origin, the key, the given value and the expected values
   */
  [[nodiscard]] static Workload parse(std::string_view json, std::string_view origin);
  /** @brief Reads a file. @throws std::invalid_argument like `parse`, or if it cannot be read */
  [[nodiscard]] static Workload load(const std::filesystem::path& file);

  /** @brief The workload as text for `parse`: all keys, sizes in bytes, indented by two spaces. */
  [[nodiscard]] std::string to_json() const;
};

/**
 * @brief Draws the feature lengths of every sample for `count` batches, and sums them per feature.
 *
 * Unweighted features come first, then those of the additional tables. The same workload and seed
 * give the same sizes on any machine.
 */
[[nodiscard]] std::vector<InputShape> draw_batches(const Workload& workload, std::size_t count,
                                                   std::uint64_t seed);

/** @brief Whether `draw_batches` gives the same result for both workloads. Shape, activations and
 *         balance have no influence. */
[[nodiscard]] bool same_batches(const Workload& a, const Workload& b);

}  // namespace millrace::experiment
