#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/pipeline/model/embedding_bags.hpp"
#include "millrace/pipeline/model/optimizer.hpp"

namespace millrace {

enum class Interaction {
  dot,          ///< dense vector, and the product of each pair of vectors: all are equally wide
  concatenate,  ///< dense and pooled vectors side by side
};

struct SparseNNConfig {
  std::size_t dense_features = 0;
  std::vector<TableConfig> tables;                      ///< of ids without weights
  std::vector<TableConfig> weighted_tables;             ///< of ids with weights
  std::map<std::string, std::size_t> position_weights;  ///< of features of `tables`, and how many
  std::vector<std::size_t> dense_arch;  ///< widths of the layers over the dense features
  std::vector<std::size_t> over_arch;   ///< widths of the hidden layers over the interaction
  Interaction interaction = Interaction::dot;
  Optimizer table_optimizer{.kind = OptimizerKind::rowwise_adagrad};
  Optimizer dense_optimizer{.kind = OptimizerKind::adam, .learning_rate = 1e-3F};
  std::uint64_t seed = 1;
  RowUpdateObserver* observer = nullptr;  ///< of the updates of all tables; not owned
  /** Of `tables`, and another of `weighted_tables`; not of those that every rank has. */
  std::optional<TableCache> table_cache{};
};

}  // namespace millrace
