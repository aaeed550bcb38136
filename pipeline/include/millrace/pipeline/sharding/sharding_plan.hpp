#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/pipeline/model/sparse_nn_config.hpp"

namespace millrace {

enum class Sharding {
  table_wise,     ///< the whole table is on one rank
  row_wise,       ///< each rank has a block of rows: rank r the ids from r * ceil(rows / ranks) on
  data_parallel,  ///< each rank has all of it; its gradients are added up, densely
};

/** @brief "table-wise", "row-wise", "data-parallel" */
[[nodiscard]] std::string_view to_string(Sharding sharding) noexcept;
/** @throws std::invalid_argument that lists the names there are */
[[nodiscard]] Sharding parse_sharding(std::string_view name);

/** @brief Where one table is. */
struct TablePlacement {
  Sharding sharding = Sharding::table_wise;
  unsigned rank = 0;  ///< of a table that is on one

  friend bool operator==(const TablePlacement&, const TablePlacement&) = default;
};

/** @brief Where the tables of a model are: one placement for each, in the model's order. */
struct ShardingPlan {
  unsigned ranks = 1;
  std::vector<TablePlacement> tables;           ///< of SparseNNConfig::tables
  std::vector<TablePlacement> weighted_tables;  ///< of SparseNNConfig::weighted_tables

  /** @throws std::invalid_argument that names the table: a rank that there is not, fewer or more
   *          placements than tables, a table by rows that has too few of them, or a feature with
   *          more than 2^24 position weights */
  void check(const SparseNNConfig& config) const;

  friend bool operator==(const ShardingPlan&, const ShardingPlan&) = default;
};

/** @brief What the planner goes by. */
struct PlannerOptions {
  double pooling = 10;  ///< ids that an example has for a feature, about
  std::size_t data_parallel_bytes = std::size_t{64} << 10;  ///< of a table that every rank has
  std::size_t rank_bytes = ~std::size_t{0};  ///< for tables and their state, on each rank
  bool split_rows = true;                    ///< tables may be split by rows
};

/**
 * @brief A plan by bytes and pooling.
 *
 * Small tables are data-parallel. A table that needs more than an even share of all bytes, or than
 * a rank has, is split by rows, if it can be. The others go whole, those that cost most
 * first, to the rank that has least to do: pooling * width for each feature, and has room.
 * @throws std::invalid_argument if the tables do not fit
 */
[[nodiscard]] ShardingPlan plan_sharding(const SparseNNConfig& config, unsigned ranks,
                                         const PlannerOptions& options = {});

/**
 * @brief A plan with every table placed in one way; those that can not be split by rows (too few of
 *        them) go whole, as the planner does it.
 */
[[nodiscard]] ShardingPlan plan_alike(const SparseNNConfig& config, unsigned ranks,
                                      Sharding sharding);

/**
 * @brief Reads {"table": {"sharding": "table-wise", "rank": 1}, ...}; tables that it does not name
 *        are as `others` has them.
 * @throws std::invalid_argument that says where and what
 */
[[nodiscard]] ShardingPlan parse_sharding_plan(std::string_view json, std::string_view origin,
                                               const SparseNNConfig& config, ShardingPlan others);
/** @brief `parse_sharding_plan` of a file of at most 4 MiB. */
[[nodiscard]] ShardingPlan load_sharding_plan(const std::filesystem::path& file,
                                              const SparseNNConfig& config, ShardingPlan others);
/** @brief What `parse_sharding_plan` reads; every table is named. */
[[nodiscard]] std::string to_json(const ShardingPlan& plan, const SparseNNConfig& config);

}  // namespace millrace
