#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/pipeline/model/table_cache.hpp"
#include "millrace/pipeline/schedule/train_pipeline.hpp"

namespace millrace::test {

/// One combination of options of a pipeline over sharded tables.
struct ShardedCell {
  PipelineKind kind = PipelineKind::sparse_dist;
  PipelineOptions options{};
  unsigned ranks = 2;
  std::size_t steps = 7;
  std::string plan = "row-wise";  ///< name for plan_named; "mixed" has data-parallel tables
  std::string policy = "millrace";
  std::optional<TableCache> cache{};  ///< of tables that are not data-parallel
  std::uint64_t schedule = 0;         ///< 0: timed; otherwise the seed of an adversarial schedule
  bool data = true;                   ///< false: costs only, nothing is computed
  std::string left_out{};             ///< an edge of ShardedCellOutcome::edges, for rank 0
  std::size_t wait_left_out = 0;      ///< leave out only this one of `waits`, from 1; 0: none

  [[nodiscard]] std::string name() const;
};

/// Cells in which each pair of values of any two options of the kind occurs.
[[nodiscard]] std::vector<ShardedCell> sharded_cells(PipelineKind kind);

/// The parameters of each rank, tensor by tensor.
using RanksTrained = std::vector<std::vector<std::vector<float>>>;

struct ShardedCellOutcome {
  RanksTrained trained;
  std::vector<std::string> races;
  std::set<std::string> edges;     ///< that the program of rank 0 made or left out
  std::vector<std::string> waits;  ///< the waits of rank 0's streams, one by one
};

/// Trains a few steps of the cell.
[[nodiscard]] ShardedCellOutcome run(const ShardedCell& cell);
/// The ranks' parameters after training without a pipeline, with the plain or the stale loop.
[[nodiscard]] RanksTrained trained_by_hand(const ShardedCell& cell);

}  // namespace millrace::test
