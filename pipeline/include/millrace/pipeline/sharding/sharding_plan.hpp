#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/pipeline/model/sparse_nn_config.hpp"

namespace millrace {

/** @brief How a table is divided among the ranks. */
enum class Sharding {
  table_wise,     ///< one rank has the whole table
  row_wise,       ///< each rank has a block of rows; rank r's begins at r * ceil(rows / ranks)
  data_parallel,  ///< each rank has the whole table; dense gradients are summed over the ranks
};

inline constexpr std::array kShardings{Sharding::table_wise, Sharding::row_wise,
                                       Sharding::data_parallel};
/** @brief "table-wise", "row-wise", "data-parallel" */
[[nodiscard]] std::string_view to_string(Sharding sharding) noexcept;
/** @throws std::invalid_argument for an unknown name; the message lists the known ones */
[[nodiscard]] Sharding parse_sharding(std::string_view name);

/** @brief The place of one table. */
struct TablePlacement {
  Sharding sharding = Sharding::table_wise;
  unsigned rank = 0;  ///< the rank that has the table, for `table_wise`

  friend bool operator==(const TablePlacement&, const TablePlacement&) = default;
};

/** @brief The places of the tables of a model: one placement per table, in the model's order. */
struct ShardingPlan {
  unsigned ranks = 1;
  std::vector<TablePlacement> tables;           ///< for SparseNNConfig::tables
  std::vector<TablePlacement> weighted_tables;  ///< for SparseNNConfig::weighted_tables

  /**
   * @brief Checks that the plan fits a model.
   * @throws std::invalid_argument if the numbers of placements and tables differ, a rank is out of
   *         range, or a row-wise table has too few rows for its ranks or a feature with more than
   *         2^24 position weights. The message names the table.
   */
  void check(const SparseNNConfig& config) const;

  friend bool operator==(const ShardingPlan&, const ShardingPlan&) = default;
};

/** @brief The planner's assumptions about the model and the ranks. */
struct PlannerOptions {
  double pooling = 10;  ///< approximate number of ids per example and feature
  /// Tables of at most this size are data-parallel.
  std::size_t data_parallel_bytes = std::size_t{64} << 10;
  std::size_t rank_bytes = ~std::size_t{0};  ///< memory for tables and their state on each rank
  bool split_rows = true;                    ///< whether tables may be split by rows
};

/**
 * @brief Makes a plan that balances bytes and work.
 *
 * Small tables are data-parallel. A table that is larger than an even share of all bytes, or than
 * `rank_bytes`, is split by rows if possible. Every other table goes to one rank: the tables are
 * placed in order of decreasing work (pooling * width per feature), each on the least busy rank
 * with enough memory.
 * @throws std::invalid_argument if the tables do not fit
 */
[[nodiscard]] ShardingPlan plan_sharding(const SparseNNConfig& config, unsigned ranks,
                                         const PlannerOptions& options = {});

/**
 * @brief Makes a plan in which every table has the same sharding.
 *
 * A table that cannot be split by rows is placed on one rank, as in `plan_sharding`.
 */
[[nodiscard]] ShardingPlan plan_alike(const SparseNNConfig& config, unsigned ranks,
                                      Sharding sharding);

/**
 * @brief Parses a plan such as {"table": {"sharding": "table-wise", "rank": 1}, ...}.
 * @param json    the text
 * @param origin  origin of the text, for messages (for instance a file name)
 * @param others  the placement of tables that the text does not name
 * @throws std::invalid_argument with the place of the error and the reason
 */
[[nodiscard]] ShardingPlan parse_sharding_plan(std::string_view json, std::string_view origin,
                                               const SparseNNConfig& config, ShardingPlan others);
/** @brief `parse_sharding_plan` for a file of at most 4 MiB. */
[[nodiscard]] ShardingPlan load_sharding_plan(const std::filesystem::path& file,
                                              const SparseNNConfig& config, ShardingPlan others);
/** @brief Returns the plan in the format of `parse_sharding_plan`, with all tables. */
[[nodiscard]] std::string to_json(const ShardingPlan& plan, const SparseNNConfig& config);

}  // namespace millrace
