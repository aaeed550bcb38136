#include "millrace/experiment/workload.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <stdexcept>

#include "millrace/round_up.hpp"

namespace millrace::experiment {
namespace {

constexpr std::size_t kIndexBytes = 8;  // int64, as for lengths and offsets
constexpr std::size_t kFloatBytes = 4;

std::size_t unweighted_features(const Workload& workload) {
  return workload.num_unweighted_features + workload.additional_tables.size();
}

double bytes_per_sample(const Workload& workload) {
  const auto unweighted = static_cast<double>(unweighted_features(workload));
  const auto weighted = static_cast<double>(workload.num_weighted_features);
  const double ids = workload.feature_pooling_avg * (unweighted + weighted);
  return ids * kIndexBytes + (unweighted + weighted) * 2 * kIndexBytes +
         workload.feature_pooling_avg * weighted * kFloatBytes +
         static_cast<double>(workload.float32_features() + 1) * kFloatBytes;
}

/** The features that `draw_batches` draws. Each has its own table of the same name. */
std::vector<TableConfig> tables(std::string_view prefix, std::size_t count,
                                const Workload& workload) {
  std::vector<TableConfig> tables;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("{}{}", prefix, i);
    tables.push_back({.name = name,
                      .rows = workload.base_row_size,
                      .width = workload.embedding_feature_dim,
                      .features = {name}});
  }
  return tables;
}

}  // namespace

std::size_t Workload::mean_batch_bytes() const {
  return static_cast<std::size_t>(
      std::llround(bytes_per_sample(*this) * static_cast<double>(batch_size)));
}

std::size_t Workload::float32_features() const {
  return round_up(num_float_features * float_feature_bytes, kFloatBytes) / kFloatBytes;
}

Workload Workload::scaled_to(std::size_t batch_bytes) const {
  Workload scaled = *this;
  const double samples = std::round(static_cast<double>(batch_bytes) / bytes_per_sample(*this));
  scaled.batch_size = std::max<std::size_t>(1, static_cast<std::size_t>(samples));
  return scaled;
}

std::size_t Workload::table_bytes() const {
  std::size_t bytes = (num_unweighted_features + num_weighted_features) * base_row_size *
                      embedding_feature_dim * kFloatBytes;
  for (const ExtraTable& table : additional_tables) {
    bytes += table.num_embeddings * table.embedding_dim * table.element_bytes;
  }
  return bytes / world_size;
}

SparseNNConfig Workload::model_config(std::uint64_t seed) const {
  if (!model) {
    throw std::invalid_argument{fmt::format("the workload {} has no model, only its sizes", name)};
  }
  SparseNNConfig config{.dense_features = num_float_features,
                        .tables = tables("u", num_unweighted_features, *this),
                        .weighted_tables = tables("w", num_weighted_features, *this),
                        .dense_arch = model->dense_arch,
                        .over_arch = model->over_arch,
                        .interaction = model->interaction,
                        .table_optimizer = model->table_optimizer,
                        .dense_optimizer = model->dense_optimizer,
                        .seed = seed};
  for (std::size_t i = 0; i < additional_tables.size(); ++i) {
    const std::string name = fmt::format("t{}", i);
    config.tables.push_back({.name = name,
                             .rows = additional_tables[i].num_embeddings,
                             .width = additional_tables[i].embedding_dim,
                             .features = {name}});
  }
  return config;
}

}  // namespace millrace::experiment
