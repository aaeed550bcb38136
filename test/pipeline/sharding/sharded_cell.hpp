#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/pipeline/model/table_cache.hpp"
#include "millrace/pipeline/schedule/train_pipeline.hpp"

namespace millrace::test {

/// One cell of what a pipeline over sharded tables can be.
struct ShardedCell {
  PipelineKind kind = PipelineKind::sparse_dist;
  PipelineOptions options{};
  unsigned ranks = 2;
  std::size_t steps = 7;
  std::string plan = "row-wise";  ///< as plan_named; "mixed" has tables that are data-parallel
  std::string policy = "millrace";
  std::optional<TableCache> cache{};  ///< of tables that are not data-parallel
  std::uint64_t schedule = 0;         ///< 0: timed, else the seed of an adversarial one
  bool data = true;                   ///< or costs only: nothing is trained, and nothing can break
  std::string left_out{};             ///< one of ShardedCellOutcome::edges, on rank 0
  std::size_t wait_left_out = 0;      ///< only this one of ShardedCellOutcome::waits, from 1

  [[nodiscard]] std::string name() const;
};

/// Each pair of values of any two options of the kind is in one of them.
[[nodiscard]] std::vector<ShardedCell> sharded_cells(PipelineKind kind);

/// The parameters of each rank, tensor by tensor.
using RanksTrained = std::vector<std::vector<std::vector<float>>>;

struct ShardedCellOutcome {
  RanksTrained trained;
  std::vector<std::string> races;
  std::set<std::string> edges;     ///< that the program of rank 0 made, or left out
  std::vector<std::string> waits;  ///< those of its streams, one by one
};

/// A few steps of the cell.
[[nodiscard]] ShardedCellOutcome run(const ShardedCell& cell);
/// What the ranks train without a pipeline: with the plain loop, or the stale one.
[[nodiscard]] RanksTrained trained_by_hand(const ShardedCell& cell);

}  // namespace millrace::test
