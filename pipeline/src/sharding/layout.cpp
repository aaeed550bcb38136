#include "sharding/layout.hpp"

#include <algorithm>

namespace millrace::sharding {
namespace {

std::int64_t block_of(std::size_t rows, unsigned ranks) {
  return static_cast<std::int64_t>((rows + ranks - 1) / ranks);
}

/** The rows of the table that `rank` has; none of some tables. */
TableConfig shard_of(const TableConfig& table, unsigned rank, unsigned ranks) {
  const auto block = static_cast<std::size_t>(block_of(table.rows, ranks));
  TableConfig shard = table;
  shard.whole_rows = table.rows;
  shard.first_row = std::min(rank * block, table.rows);
  shard.rows = std::min(block, table.rows - shard.first_row);
  return shard;
}

}  // namespace

Layout::Layout(const SparseNNConfig& config, const ShardingPlan& plan, unsigned of)
    : rank(of), ranks(plan.ranks), side_columns_(plan.ranks + 1) {
  plan.check(config);
  for (Side& side : sides) side.slots.resize(ranks);
  for (std::size_t i = 0; i < config.tables.size(); ++i) {
    add_table(config.tables[i], plan.tables[i], 0);
  }
  for (std::size_t i = 0; i < config.weighted_tables.size(); ++i) {
    add_table(config.weighted_tables[i], plan.weighted_tables[i], 1);
  }
  for (const auto& [unweighted, weighted] : side_columns_) {
    columns_before.push_back(block_columns);
    columns.push_back(unweighted + weighted);
    block_columns += columns.back();
  }
  map_columns();
}

void Layout::add_table(const TableConfig& table, const TablePlacement& placement,
                       std::size_t number) {
  Side& side = sides[number];
  const auto of_rank = [&](unsigned on) {
    const bool by_rows = placement.sharding == Sharding::row_wise;
    for (const std::string& feature : table.features) {
      side.slots[on].push_back({feature, by_rows, block_of(table.rows, ranks)});
    }
    if (on != rank) return;
    side.local.push_back(by_rows ? shard_of(table, rank, ranks) : table);
  };
  switch (placement.sharding) {
    case Sharding::table_wise:
      of_rank(placement.rank);
      break;
    case Sharding::row_wise:
      for (unsigned on = 0; on < ranks; ++on) of_rank(on);
      break;
    case Sharding::data_parallel:
      side.everywhere.push_back(table);
      side.own_features.insert(side.own_features.end(), table.features.begin(),
                               table.features.end());
      break;
  }
  for (std::size_t i = 0; i < table.features.size(); ++i) {
    const bool by_rows = placement.sharding == Sharding::row_wise;
    const std::size_t first = placement.sharding == Sharding::data_parallel ? ranks
                              : by_rows                                     ? 0
                                                                            : placement.rank;
    const std::size_t last = by_rows ? ranks - 1 : first;
    for (std::size_t block = first; block <= last; ++block) {
      std::size_t& column = side_columns_[block][number];
      pieces_.push_back({pooled_columns, table.width, block, number, column});
      column += table.width;
    }
    pooled_columns += table.width;
    ++features;
  }
}

void Layout::map_columns() {
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    const auto end = std::find_if(
        piece, pieces_.end(), [&](const Piece& other) { return other.pooled != piece->pooled; });
    for (std::size_t c = 0; c < piece->width; ++c) {
      first_source.push_back(static_cast<std::int32_t>(sources.size()));
      for (auto part = piece; part != end; ++part) {
        const std::size_t before = part->side == 0 ? 0 : side_columns_[part->block][0];
        sources.push_back({static_cast<std::int32_t>(columns_before[part->block]),
                           static_cast<std::int32_t>(columns[part->block]),
                           static_cast<std::int32_t>(before + part->column + c)});
      }
    }
    piece = end;
  }
  first_source.push_back(static_cast<std::int32_t>(sources.size()));
}

}  // namespace millrace::sharding
