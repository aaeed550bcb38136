#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/pipeline/sharding/sharding_plan.hpp"
#include "sharding/kernels.hpp"

namespace millrace::sharding {

/** @brief A feature of a rank's local tables. Slots are in the order of lookups. */
struct Slot {
  std::string feature;
  bool by_rows = false;
  std::int64_t block = 0;  ///< if `by_rows`: rows of a shard, so that id / block is the rank
};

/**
 * @brief The tables for ids without weights, or the tables for ids with weights.
 *
 * Each rank sends pooled rows back as one block [batch x columns of that rank]. A last block has
 * those of the data-parallel tables, which this rank looks up itself.
 */
struct Side {
  Side(const std::vector<TableConfig>& tables, const std::vector<TablePlacement>& placements,
       unsigned rank, unsigned ranks);

  std::vector<std::vector<Slot>> slots;   ///< by rank
  std::vector<TableConfig> local;         ///< tables and shards of this rank
  std::vector<TableConfig> everywhere;    ///< data-parallel tables
  std::vector<std::string> own_features;  ///< features of data-parallel tables
  std::vector<std::string> means;         ///< features of row-wise tables that pool by mean
  bool positions = false;  ///< whether features of row-wise tables have position weights

  std::vector<std::size_t> columns;         ///< columns of each block
  std::vector<std::size_t> columns_before;  ///< columns before each block; last, those of all
  std::size_t pooled_columns = 0;           ///< pooled columns of the model
  std::size_t features = 0;                 ///< features of the model
  /** For each pooled column, index of its first source; then the size of `sources`. */
  std::vector<std::int32_t> first_source;
  std::vector<ColumnSource> sources;  ///< for each column in the order of the ranks
  /** For each pooled column, its index in `means`, or -1; empty if `means` is empty. */
  std::vector<std::int32_t> mean_of;

 private:
  /** @brief Adjacent columns of a block, and their place among the model's columns. */
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
 * @brief The parts of a sharding plan that one rank needs: the ranks to which each feature is sent,
 * and the places of its columns in the blocks that come back.
 */
struct Layout {
  Layout(const SparseNNConfig& config, const ShardingPlan& plan, unsigned rank);

  unsigned rank, ranks;
  std::array<Side, 2> sides;  ///< for ids without weights, and for ids with weights
};

}  // namespace millrace::sharding
