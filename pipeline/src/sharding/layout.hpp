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

/** @brief The tables for ids without weights, or those for ids with. */
struct Side {
  std::vector<std::vector<Slot>> slots;   ///< by rank
  std::vector<TableConfig> local;         ///< tables and shards of this rank
  std::vector<TableConfig> everywhere;    ///< data-parallel
  std::vector<std::string> own_features;  ///< of those
};

/**
 * @brief What follows from a plan, as one rank needs it: where each feature goes, and where its
 *        columns come back.
 *
 * Pooled rows come back in blocks [batch x columns of the rank], one for each rank, and a last one
 * of this rank's data-parallel tables; in each, ids without weights come first.
 */
struct Layout {
  Layout(const SparseNNConfig& config, const ShardingPlan& plan, unsigned rank);

  unsigned rank, ranks;
  std::array<Side, 2> sides;                ///< without weights, with
  std::vector<std::size_t> columns;         ///< of each block
  std::vector<std::size_t> columns_before;  ///< of the blocks before it
  std::size_t block_columns = 0;            ///< of all blocks
  std::size_t pooled_columns = 0;           ///< of the model
  std::size_t features = 0;                 ///< of the model
  std::vector<std::int32_t> first_source;   ///< of each pooled column; and behind the last
  std::vector<ColumnSource> sources;        ///< in the order of the ranks

 private:
  /** @brief Columns of a block that are columns of the model. */
  struct Piece {
    std::size_t pooled, width, block, side, column;  ///< `column` of the block's side
  };

  void add_table(const TableConfig& table, const TablePlacement& placement, std::size_t side);
  void map_columns();

  std::vector<Piece> pieces_;
  std::vector<std::array<std::size_t, 2>> side_columns_;  ///< of each block
};

}  // namespace millrace::sharding
