#include <map>
#include <set>
#include <string>
#include <vector>

#include "test/pipeline/sharding/sharded_cell.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

std::vector<ShardedCell> cells() {
  using enum PipelineKind;
  using enum CopyMethod;
  using enum LookupPosition;
  const auto cell = [](PipelineKind kind, CopyMethod copy, Waits waits, const char* plan,
                       LookupOptions lookup = {}, StaleOptions stale = {}) {
    return ShardedCell{.kind = kind,
                       .options = {.copy = copy, .waits = waits, .lookup = lookup, .stale = stale},
                       .plan = plan};
  };
  constexpr auto coarse = Waits::coarse, exactly = Waits::precise;
  const auto fused = [&](CopyMethod copy, Waits waits, const char* plan, LookupOptions lookup) {
    return cell(fused_sparse_dist, copy, waits, plan, lookup);
  };
  const auto cached = [&](CopyMethod copy, Waits waits, const char* plan) {
    ShardedCell prefetching = cell(prefetch_sparse_dist, copy, waits, plan);
    prefetching.cache = TableCache{0.1};
    return prefetching;
  };
  return {
      cached(side_stream, coarse, "mixed"),
      cached(precise, exactly, "row-wise"),
      cell(base, side_stream, coarse, "mixed"),
      cell(sparse_dist_lite, precise, exactly, "mixed"),
      cell(sparse_dist, side_stream, coarse, "mixed"),
      cell(sparse_dist, precise, exactly, "row-wise"),
      cell(semi_sync, in_place, coarse, "mixed", {}, {.start_batch = 0, .stash_gradients = true}),
      cell(semi_sync, side_stream, exactly, "row-wise", {}, {.start_batch = 3}),
      fused(side_stream, coarse, "row-wise", {after_optimizer, LookupStream::data_dist}),
      fused(precise, exactly, "row-wise", {before_optimizer, LookupStream::own}),
      fused(precise, exactly, "table-wise", {after_data_dist, LookupStream::main}),
      fused(side_stream, exactly, "mixed", {after_optimizer, LookupStream::own, true}),
      fused(in_place, coarse, "mixed", {after_data_dist, LookupStream::data_dist, true})};
}

/// Edges that other edges imply, each with the reason.
std::set<std::string> redundant(const ShardedCell& cell) {
  const bool on_main =
      cell.kind == PipelineKind::base || cell.kind == PipelineKind::sparse_dist_lite;
  std::set<std::string> edges{
      "model's used by gradients",         // main waits for that use before the model is freed
      "gradients waits for pooled-rows"};  // orders no data; the update's exchange runs first
  // The update's exchange waits for backward, and the sum of the gradients waits for that exchange.
  // After it, the update writes the gradients of data-parallel tables (plan "mixed"). Stashed
  // gradients were written one step earlier.
  if (cell.plan != "mixed" || cell.options.stale.stash_gradients) {
    edges.insert("gradients waits for main");
  }
  // The exchanged features belong to the stream that exchanges them.
  edges.insert(on_main ? "features used by main" : "features used by data-dist");
  // A batch that is freed on main, or by main's marker, needs no record of main's use.
  if (cell.options.copy != CopyMethod::side_stream) edges.insert("batch used by main");
  if (cell.kind == PipelineKind::sparse_dist_lite) {
    // The host waits for the counts, which arrive after the whole previous step. Only then does it
    // load and copy.
    edges.insert({"host batch freed by copy's marker", "batch used by main",
                  "batch freed by main's marker"});
  }
  if (on_main) return edges;
  edges.insert("batch used by data-dist");  // main waits for that use before it frees the batch
  edges.insert("host waits for main");      // the test's wait, after copies that block the host
  if (cell.options.waits == Waits::precise) edges.insert("main waits for copy");  // data-dist did
  if (cell.kind == PipelineKind::prefetch_sparse_dist) {
    // The update waits for prefetch. The next marker of prefetch comes after the lookup that
    // follows the update.
    edges.insert({"features used by prefetch", "features used by main"});
  }
  if (cell.kind != PipelineKind::fused_sparse_dist) return edges;
  // Gradients of pooled rows: main waits for the lookup after the update before it allocates again.
  edges.insert({"model's used by lookup", "model's used by data-dist"});
  if (cell.options.lookup.stream != LookupStream::main) {
    edges.insert("features used by main");  // ids of means: lookup's stream waits for backward
  }
  if (cell.options.lookup.stream == LookupStream::own) {
    edges.insert("model's used by main");  // pooled rows: lookup's stream waits for backward
  }
  if (cell.options.lookup.stream == LookupStream::data_dist) {
    edges.insert("batch used by main");  // data-dist, whose use is recorded, waits for backward
  }
  return edges;
}

/// True if the checker names the left-out edge under one of several schedules.
bool named(ShardedCell cell) {
  cell.data = false;
  for (std::uint64_t number = 0; number < 20; ++number) {
    cell.schedule = number == 0 ? 0 : seed() * 1000 + number;
    if (!run(cell).races.empty()) return true;
  }
  return false;
}

bool harmless(ShardedCell cell, const RanksTrained& expected) {
  cell.schedule = seed() * 1000 + 1;
  const ShardedCellOutcome outcome = run(cell);
  return outcome.races.empty() && outcome.trained == expected;
}

}  // namespace

TEST_CASE("each edge of a pipeline over sharded tables is named when left out, or is redundant") {
  for (const ShardedCell& cell : cells()) {
    const ShardedCellOutcome whole = run(cell);
    CHECK(whole.edges.contains("main waits for gradients"));
    const std::set<std::string> implied = redundant(cell);
    for (const std::string& edge : whole.edges) {
      ShardedCell without = cell;
      without.left_out = edge;
      INFO(without.name());
      if (implied.contains(edge)) {
        CHECK(harmless(without, whole.trained));
      } else {
        CHECK(named(without));
      }
    }
  }
}

namespace {

/// Edges of which another wait of the same step implies a single wait, including `redundant`.
std::set<std::string> implied_once(const ShardedCell& cell) {
  // The rows of the side that is looked up last arrive last, after the lookup. In semi-sync, the
  // rows of the next lookup arrive earlier than the data that the update waits for.
  std::set<std::string> edges = redundant(cell);
  edges.insert({"main waits for pooled-rows", "main waits for lookup", "main waits for data-dist"});
  return edges;
}

}  // namespace

TEST_CASE("each single wait of a step over sharded tables is named when left out, or is implied") {
  for (ShardedCell cell : cells()) {
    const bool ordered = cell.options.lookup.order_after_dense;
    if (!ordered && cell.options.stale.start_batch != 3) continue;
    cell.data = false;
    const ShardedCellOutcome whole = run(cell);
    REQUIRE(whole.races == std::vector<std::string>{});
    const std::vector<std::string>& waits = whole.waits;
    const std::size_t step = waits.size() / cell.steps;
    std::map<std::string, std::size_t> left_out, found;
    for (std::size_t wait = 3 * step; wait < 4 * step; ++wait) {
      cell.wait_left_out = wait + 1;
      ++left_out[waits[wait]];
      if (!run(cell).races.empty()) ++found[waits[wait]];
    }
    for (const auto& [edge, times] : left_out) {
      INFO(cell.name() << ": " << edge);
      if (!implied_once(cell).contains(edge)) CHECK(found[edge] == times);
      if (!redundant(cell).contains(edge)) CHECK(found[edge] > 0);
    }
  }
}

}  // namespace millrace::test
