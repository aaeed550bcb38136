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

/** @brief The link of a footprint's workload that names none: that of an H100 or H200, each way. */
inline constexpr double kExchangeGbPerS = 450;

/** @brief An embedding table beside those that all look alike; one unweighted feature looks it up.
 */
struct ExtraTable {
  std::size_t num_embeddings = 0;
  std::size_t embedding_dim = 0;
  std::size_t element_bytes = 4;
};

/**
 * @brief What one rank of a training job moves and computes in a step; docs/workloads.md has the
 *        keys of the JSON form, their defaults, and what is derived from them.
 *
 * Two keyed jagged tensors (weighted features and not), dense float features and labels. Indices
 * and lengths are int64, everything else float32 unless a table says otherwise.
 */
struct Workload {
  std::string name;
  std::string description;

  PipelineKind shape = PipelineKind::sparse_dist;
  std::size_t num_batches = 20;  ///< steps of a run
  std::size_t batch_size = 0;    ///< samples
  std::size_t world_size = 1;    ///< ranks that tables are shared by; this is one of them

  std::size_t num_float_features = 0;
  std::size_t num_unweighted_features = 0;
  std::size_t num_weighted_features = 0;
  double feature_pooling_avg = 1;        ///< ids of a feature in a sample: normal, at least 1
  double feature_pooling_std = 0;        ///< between samples
  double feature_pooling_variation = 0;  ///< between batches: std of the average, relative

  std::size_t base_row_size = 0;          ///< rows of a table
  std::size_t embedding_feature_dim = 0;  ///< columns of a table
  std::vector<ExtraTable> additional_tables;

  std::size_t activations = 0;  ///< bytes that forward keeps for backward
  std::size_t layers = 8;       ///< of the over-arch
  double compute_to_copy = 1;   ///< compute time of a step over the time of its batch's copy
  unsigned run_ahead = 0;       ///< device operations queued at most; 0: a host sync each step

  /** What this rank sends, and receives, in 10^9 bytes/s. Where it is not given, `millrace
   * footprint` takes kExchangeGbPerS and `millrace pipelines` the device's link. */
  std::optional<double> exchange_gb_per_s{};
  double exchange_latency_us = 0;  ///< of each all-to-all, in microseconds

  /** Layers, interaction and optimizers, where the workload is that of a model and not only its
   * sizes: what `millrace pipelines` runs. `activations`, `layers` and `compute_to_copy` then do
   * not count: they are the model's. */
  std::optional<ModelDescription> model;

  /** @brief Of a batch with average lengths. */
  [[nodiscard]] std::size_t mean_batch_bytes() const;
  /** @brief The same workload with as many samples as make `mean_batch_bytes` nearest to `bytes`.
   */
  [[nodiscard]] Workload scaled_to(std::size_t batch_bytes) const;
  /** @brief Of this rank's share of the embedding tables. */
  [[nodiscard]] std::size_t table_bytes() const;

  /**
   * @brief The model: a table for each feature, whose width and rows are the workload's. Elements
   *        are float32, whatever a table says.
   * @throws std::invalid_argument if there is none
   */
  [[nodiscard]] SparseNNConfig model_config(std::uint64_t seed) const;

  /** @brief A workload that ships. @throws std::invalid_argument that names those that do */
  [[nodiscard]] static Workload named(std::string_view name);
  [[nodiscard]] static std::vector<std::string> names();

  /**
   * @param origin  what errors call the text (a file's name)
   * @throws std::invalid_argument with origin, key, what was found and what was expected
   */
  [[nodiscard]] static Workload parse(std::string_view json, std::string_view origin);
  /** @throws std::invalid_argument as `parse`, and when the file can not be read */
  [[nodiscard]] static Workload load(const std::filesystem::path& file);

  /** @brief What `parse` reads, every key, sizes in bytes, two spaces of indentation. */
  [[nodiscard]] std::string to_json() const;
};

/**
 * @brief Draws the lengths of every sample's features, for `count` batches, and adds them up.
 *
 * Unweighted features come before those of the extra tables. The same workload and seed give the
 * same sizes, on any machine.
 */
[[nodiscard]] std::vector<InputShape> draw_batches(const Workload& workload, std::size_t count,
                                                   std::uint64_t seed);

/** @brief Whether `draw_batches` gives both the same: shape, activations and balance do not count.
 */
[[nodiscard]] bool same_batches(const Workload& a, const Workload& b);

}  // namespace millrace::experiment
