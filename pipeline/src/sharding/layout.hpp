#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/pipeline/sharding/sharding_plan.hpp"
#include "sharding/kernels.hpp"

namespace millrace::sharding {

/** @brief A feature of a rank's local tables, in the order in which it looks them up. */
struct Slot {
  std::string feature;
  bool by_rows = false;
  std::int64_t block = 0;  ///< rows of a shard: id / block is the rank
};

/**
 * @brief The tables for ids without weights, or those for ids with.
 *
 * Pooled rows come back in blocks [batch x columns of the rank], one for each rank, and a last one
 * of this rank's data-parallel tables.
 */
struct Side {
  Side(const std::vector<TableConfig>& tables, const std::vector<TablePlacement>& placements,
       unsigned rank, unsigned ranks);

  std::vector<std::vector<Slot>> slots;   ///< by rank
  std::vector<TableConfig> local;         ///< tables and shards of this rank
  std::vector<TableConfig> everywhere;    ///< data-parallel
  std::vector<std::string> own_features;  ///< of those
  std::vector<std::string> means;         ///< features of tables split by rows that pool by mean
  bool positions = false;  ///< of tables split by rows, features have position weights

  std::vector<std::size_t> columns;         ///< of each block
  std::vector<std::size_t> columns_before;  ///< of the blocks before it; and of all
  std::size_t pooled_columns = 0;           ///< of the model
  std::size_t features = 0;                 ///< of the model
  std::vector<std::int32_t> first_source;   ///< of each pooled column; and behind the last
  std::vector<ColumnSource> sources;        ///< in the order of the ranks
  std::vector<std::int32_t> mean_of;        ///< of each pooled column, which of `means`, or -1;
                                            ///< nothing if there are none

 private:
  /** @brief Columns of a block that are columns of the model. */
  struct Piece {
    std::size_t pooled, width, block, column;
  };

  void place(const TableConfig& table, const TablePlacement& placement, unsigned rank);
  void add_pieces(const TableConfig& table, std::size_t first_block, std::size_t last_block);
  void add_means(const TableConfig& table);
  void map_columns();

  std::vector<Piece> pieces_;
};

/**
 * @brief What follows from a plan, as one rank needs it: where each feature goes, and where its
 *        columns come back.
 */
struct Layout {
  Layout(const SparseNNConfig& config, const ShardingPlan& plan, unsigned rank);

  unsigned rank, ranks;
  std::array<Side, 2> sides;  ///< without weights, with
};

}  // namespace millrace::sharding
