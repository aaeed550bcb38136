#include "sharding/layout.hpp"

#include <algorithm>

namespace millrace::sharding {
namespace {

std::int64_t block_of(std::size_t rows, unsigned ranks) {
  return static_cast<std::int64_t>((rows + ranks - 1) / ranks);
}

/** Returns the shard of the table on `rank`. A small table may have no rows there. */
TableConfig shard_of(const TableConfig& table, unsigned rank, unsigned ranks) {
  const auto block = static_cast<std::size_t>(block_of(table.rows, ranks));
  TableConfig shard = table;
  shard.whole_rows = table.rows;
  shard.first_row = std::min(rank * block, table.rows);
  shard.rows = std::min(block, table.rows - shard.first_row);
  // Each rank has only a part of a bag's ids and adds them; the rank of the example divides the
  // sum.
  shard.pooling = Pooling::sum;
  return shard;
}

const ShardingPlan& checked(const ShardingPlan& plan, const SparseNNConfig& config) {
  plan.check(config);
  return plan;
}

}  // namespace

Layout::Layout(const SparseNNConfig& config, const ShardingPlan& plan, unsigned of)
    : rank(of),
      ranks(checked(plan, config).ranks),
      sides{Side{config.tables, plan.tables, rank, ranks},
            Side{config.weighted_tables, plan.weighted_tables, rank, ranks}} {
  sides[0].positions = std::ranges::any_of(sides[0].slots.front(), [&](const Slot& slot) {
    return slot.by_rows && config.position_weights.contains(slot.feature);
  });
}

Side::Side(const std::vector<TableConfig>& tables, const std::vector<TablePlacement>& placements,
           unsigned rank, unsigned ranks)
    // One block of columns from each rank, and a last one for data-parallel tables, which this rank
    // looks up itself.
    : slots(ranks), columns(ranks + 1) {
  for (std::size_t i = 0; i < tables.size(); ++i) place(tables[i], placements[i], rank);
  columns_before.push_back(0);
  for (const std::size_t of_block : columns) {
    columns_before.push_back(columns_before.back() + of_block);
  }
  map_columns();
}

void Side::place(const TableConfig& table, const TablePlacement& placement, unsigned rank) {
  const auto ranks = static_cast<unsigned>(slots.size());
  const auto add_slots = [&](unsigned on) {
    const bool by_rows = placement.sharding == Sharding::row_wise;
    for (const std::string& feature : table.features) {
      slots[on].push_back({feature, by_rows, block_of(table.rows, ranks)});
    }
    if (on == rank) local.push_back(by_rows ? shard_of(table, rank, ranks) : table);
  };
  switch (placement.sharding) {
    case Sharding::table_wise:
      add_slots(placement.rank);
      add_pieces(table, placement.rank, placement.rank);
      break;
    case Sharding::row_wise:
      for (unsigned on = 0; on < ranks; ++on) add_slots(on);
      if (table.pooling == Pooling::mean) add_means(table);
      add_pieces(table, 0, ranks - 1);
      break;
    case Sharding::data_parallel:
      everywhere.push_back(table);
      own_features.insert(own_features.end(), table.features.begin(), table.features.end());
      add_pieces(table, ranks, ranks);
      break;
  }
}

void Side::add_pieces(const TableConfig& table, std::size_t first_block, std::size_t last_block) {
  for (std::size_t i = 0; i < table.features.size(); ++i) {
    for (std::size_t block = first_block; block <= last_block; ++block) {
      pieces_.push_back({pooled_columns, table.width, block, columns[block]});
      columns[block] += table.width;
    }
    pooled_columns += table.width;
    ++features;
  }
}

/** Fills `mean_of` for the table's columns, which are added next. */
void Side::add_means(const TableConfig& table) {
  mean_of.resize(pooled_columns, -1);
  for (const std::string& feature : table.features) {
    mean_of.insert(mean_of.end(), table.width, static_cast<std::int32_t>(means.size()));
    means.push_back(feature);
  }
}

void Side::map_columns() {
  if (!means.empty()) mean_of.resize(pooled_columns, -1);
  // Pieces of the same pooled column belong to a row-wise table on several ranks, and are added.
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    const auto end = std::find_if(
        piece, pieces_.end(), [&](const Piece& other) { return other.pooled != piece->pooled; });
    for (std::size_t c = 0; c < piece->width; ++c) {
      first_source.push_back(static_cast<std::int32_t>(sources.size()));
      for (auto part = piece; part != end; ++part) {
        sources.push_back({static_cast<std::int32_t>(columns_before[part->block]),
                           static_cast<std::int32_t>(columns[part->block]),
                           static_cast<std::int32_t>(part->column + c)});
      }
    }
    piece = end;
  }
  first_source.push_back(static_cast<std::int32_t>(sources.size()));
}

}  // namespace millrace::sharding
