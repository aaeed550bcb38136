#include "test/pipeline/sharding/sharded_cell.hpp"

#include <fmt/format.h>

#include <array>
#include <functional>

#include "test/pipeline/sharding/sharded_machine.hpp"
#include "test/pipeline/sharding/sharded_rig.hpp"
#include "test/support/pairwise.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kCellExamples = 8;  // examples of all ranks per step

constexpr std::array kPlans{"row-wise", "mixed", "table-wise"};
constexpr std::array kLookups{
    LookupOptions{LookupPosition::after_optimizer, LookupStream::data_dist, false},
    LookupOptions{LookupPosition::before_optimizer, LookupStream::data_dist, false},
    LookupOptions{LookupPosition::after_data_dist, LookupStream::data_dist, false},
    LookupOptions{LookupPosition::after_optimizer, LookupStream::data_dist, true},
    LookupOptions{LookupPosition::after_data_dist, LookupStream::data_dist, true}};
constexpr std::array<std::uint64_t, 3> kStaleFrom{0, 3, 900};

constexpr std::array<std::optional<TableCache>, 4> kCaches{
    TableCache{0.1, CachePolicy::lru}, TableCache{0.1, CachePolicy::lfu}, TableCache{1}, {}};

/// The number of values of each option of a kind. The options that all kinds have come first.
std::vector<std::size_t> options_of(PipelineKind kind) {
  std::vector<std::size_t> options{kCopyMethods.size(), 2, 2, 2, 2, 2, 2};
  if (kind == PipelineKind::fused_sparse_dist) {
    options.push_back(kLookups.size());
    options.push_back(kLookupStreams.size());
    return options;
  }
  options.push_back(kPlans.size());
  if (kind == PipelineKind::semi_sync) options.insert(options.end(), {kStaleFrom.size(), 2});
  if (kind == PipelineKind::prefetch_sparse_dist) options.push_back(kCaches.size());
  return options;
}

ShardedCell cell_of(PipelineKind kind, const std::vector<std::size_t>& row) {
  ShardedCell cell{.kind = kind};
  PipelineOptions& options = cell.options;
  options.copy = kCopyMethods[row[0]];
  options.waits = row[1] == 0 ? Waits::coarse : Waits::precise;
  cell.ranks = row[2] == 0 ? 2 : 4;
  cell.policy = row[3] == 0 ? "millrace" : "torch";
  options.savers = {row[4] != 0, row[5] != 0, row[6] != 0};
  if (kind == PipelineKind::fused_sparse_dist) {
    options.lookup = kLookups[row[7]];
    options.lookup.stream = kLookupStreams[row[8]];
    cell.plan = options.lookup.order_after_dense ? "mixed" : "row-wise";
    return cell;
  }
  cell.plan = kPlans[row[7]];
  if (kind == PipelineKind::semi_sync) options.stale = {kStaleFrom[row[8]], row[9] != 0};
  if (kind == PipelineKind::prefetch_sparse_dist) cell.cache = kCaches[row[8]];
  return cell;
}

using TrainRank = std::function<void(ShardedRank& rank, std::size_t first, std::size_t count)>;

ShardedCellOutcome train_cell(const ShardedCell& cell, const TrainRank& train_rank) {
  SparseNNConfig config = sharded_config();
  config.table_cache = cell.cache;
  const ShardingPlan plan = plan_named(cell.plan, config, cell.ranks);
  ShardedMachine machine{cell.ranks, cell.schedule, cell.data};
  ShardedCellOutcome outcome;
  outcome.trained.resize(cell.ranks);
  machine.run([&](ShardedMachine::Place& place) {
    RankSetup setup{.checking = &machine.checking,
                    .seen = &place.device,
                    .policy = cell.policy == "torch" ? Policy::torch() : Policy::millrace(),
                    .batches_from_driver = traits_of(cell.options.copy).uses_driver_pool,
                    .cost_only = !cell.data};
    if (place.number == 0) {
      setup.left_out = cell.left_out;
      place.program_device.leave_out(cell.left_out);
      place.program_device.leave_out_wait(cell.wait_left_out);
    }
    ShardedRank rank{place.program, setup, config, plan, &place.group};
    const std::size_t share = kCellExamples / cell.ranks;
    train_rank(rank, place.number * share, share);
    outcome.trained[place.number] = rank.trained().values;
    if (place.number == 0) {
      outcome.edges = rank.tellings();
      outcome.waits = place.program_device.waits();
      for (const auto& [edge, times] : place.program_device.edges()) outcome.edges.insert(edge);
    }
    place.group.barrier();
  });
  outcome.races = machine.races();
  return outcome;
}

}  // namespace

std::string ShardedCell::name() const {
  std::string name =
      fmt::format("{}, {}, {} waits, {} ranks, {}, {}, schedule {}", to_string(kind),
                  to_string(options.copy), to_string(options.waits), ranks, plan, policy, schedule);
  if (kind == PipelineKind::fused_sparse_dist) {
    name += fmt::format(", lookup {} on {}{}", to_string(options.lookup.position),
                        to_string(options.lookup.stream),
                        options.lookup.order_after_dense ? ", ordered" : "");
  }
  if (kind == PipelineKind::semi_sync) {
    name += fmt::format(", stale from {} on{}", options.stale.start_batch,
                        options.stale.stash_gradients ? ", gradients too" : "");
  }
  if (cache) {
    name += fmt::format(", {} of rows cached, {}", cache->load_factor, to_string(cache->policy));
  }
  if (options.savers.batch) name += ", batch freed early";
  if (options.savers.exchanged_inputs) name += ", exchanged inputs cleared";
  if (options.savers.features) name += ", features freed early";
  if (wait_left_out != 0) name += fmt::format(", without wait {}", wait_left_out);
  if (!left_out.empty()) name += ", without: " + left_out;
  return name;
}

std::vector<ShardedCell> sharded_cells(PipelineKind kind) {
  std::vector<ShardedCell> cells;
  for (const auto& row : pairwise(options_of(kind))) cells.push_back(cell_of(kind, row));
  return cells;
}

ShardedCellOutcome run(const ShardedCell& cell) {
  return train_cell(cell, [&](ShardedRank& rank, std::size_t first, std::size_t count) {
    rank.run(cell.kind, cell.options, cell.steps, kCellExamples, first, count);
  });
}

RanksTrained trained_by_hand(const ShardedCell& cell) {
  const ShardedCell plain{.ranks = cell.ranks, .steps = cell.steps, .plan = cell.plan};
  return train_cell(plain,
                    [&](ShardedRank& rank, std::size_t first, std::size_t count) {
                      if (cell.kind == PipelineKind::semi_sync) {
                        return rank.run_stale(cell.options.stale, cell.steps, kCellExamples, first,
                                              count);
                      }
                      for (std::size_t step = 0; step < cell.steps; ++step) {
                        rank.step(GlobalBatch{sharded_config(), step, kCellExamples}, first, count);
                      }
                    })
      .trained;
}

}  // namespace millrace::test
