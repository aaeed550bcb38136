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

/** @brief How dense and pooled vectors are combined. */
enum class Interaction {
  dot,          ///< the dense vector and the dot products of all pairs; requires equal widths
  concatenate,  ///< dense and pooled vectors side by side
};

/** @brief The configuration of a SparseNN. */
struct SparseNNConfig {
  std::size_t dense_features = 0;
  std::vector<TableConfig> tables;           ///< for ids without weights
  std::vector<TableConfig> weighted_tables;  ///< for ids with weights
  /// By feature of `tables`: the number of positions in a bag that have their own weight.
  std::map<std::string, std::size_t> position_weights;
  std::vector<std::size_t> dense_arch;  ///< widths of the layers over the dense features
  std::vector<std::size_t> over_arch;   ///< widths of the hidden layers over the interaction
  Interaction interaction = Interaction::dot;
  Optimizer table_optimizer{.kind = OptimizerKind::rowwise_adagrad};
  Optimizer dense_optimizer{.kind = OptimizerKind::adam, .learning_rate = 1e-3F};
  std::uint64_t seed = 1;
  RowUpdateObserver* observer = nullptr;  ///< observes the updates of all tables; not owned
  /// Caches `tables`, and in a second cache `weighted_tables`; data-parallel tables are not cached.
  std::optional<TableCache> table_cache{};
};

}  // namespace millrace
