#include "millrace/experiment/pipeline_comparison.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::experiment;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

Workload small_pr2916() {
  Workload workload = Workload::named("pr2916");
  workload.batch_size = 512;
  workload.num_batches = 4;
  return workload;
}

}  // namespace

TEST_CASE("no pipeline is faster than its bound, and none has a race") {
  const Workload workload = small_pr2916();
  for (const PipelineKind kind : kPipelineKinds) {
    for (const Waits waits : {Waits::coarse, Waits::precise}) {
      const PipelineRun run =
          run_pipeline({.pipeline = kind, .options = {.waits = waits}}, workload, 1);
      INFO(to_string(kind) << " " << to_string(waits));
      CHECK(run.bound.runtime() > 0ns);
      CHECK(run.runtime >= run.bound.runtime());
      CHECK(run.races.empty());
      CHECK(run.memory.reserved.peak >= run.memory.allocated.peak);
    }
  }
}

TEST_CASE("the peak of allocated memory is the same on A100 and H100") {
  const Workload workload = small_pr2916();
  const PipelineRun h100 = run_pipeline({.device = "virtual:h100"}, workload, 1);
  const PipelineRun a100 = run_pipeline({.device = "virtual:a100"}, workload, 1);
  CHECK(h100.memory.allocated.peak == a100.memory.allocated.peak);
  CHECK(h100.runtime < a100.runtime);
}

TEST_CASE("a comparison repeats exactly, and another seed draws other batches") {
  Workload workload = small_pr2916();
  workload.feature_pooling_std = 3;
  const PipelineRun once = run_pipeline({}, workload, 1);
  const PipelineRun again = run_pipeline({}, workload, 1);
  CHECK(once.runtime == again.runtime);
  CHECK(once.memory.reserved.peak == again.memory.reserved.peak);
  CHECK(once.memory.requested.peak != run_pipeline({}, workload, 2).memory.requested.peak);
}

TEST_CASE("a workload without a model or an unknown virtual device is refused") {
  CHECK_THROWS_WITH(run_pipeline({}, Workload::named("train_pipeline_base"), 1),
                    ContainsSubstring("has no model"));
  CHECK_THROWS_AS(run_pipeline({.device = "virtual:none"}, small_pr2916(), 1),
                  std::invalid_argument);
}

TEST_CASE("a rank that runs out of memory throws out_of_memory and no other error") {
  Workload workload = small_pr2916();
  // After 100 tables, one more table for each rank in turn.
  workload.additional_tables = {{.num_embeddings = 10, .embedding_dim = 512},
                                {.num_embeddings = 100'000'000, .embedding_dim = 512}};
  CHECK_THROWS_AS(run_pipeline({}, workload, 1), out_of_memory);
}

// Properties of the timeline of the whole loop.

namespace {

using Operations = std::vector<LoopOperation>;

Operations of(const PipelineRun& run, std::string_view name, std::string_view stream = {}) {
  Operations some;
  std::ranges::copy_if(run.operations, std::back_inserter(some),
                       [&](const LoopOperation& operation) {
                         return operation.rank == 0 && operation.name == name &&
                                (stream.empty() || operation.stream == stream);
                       });
  return some;
}

bool overlap(const LoopOperation& a, const LoopOperation& b) {
  return a.begin < b.end && b.begin < a.end;
}

bool overlaps_one(const LoopOperation& a, const Operations& others) {
  return std::ranges::any_of(others, [&](const LoopOperation& b) { return overlap(a, b); });
}

/// The exchange of each lookup's rows: the first exchange after the lookup that no other lookup
/// has.
Operations exchanges_of_rows(const PipelineRun& run) {
  const Operations all = of(run, "all-to-all", "pooled-rows");
  Operations rows;
  auto next = all.begin();
  for (const LoopOperation& lookup : of(run, "look up")) {
    next = std::find_if(next, all.end(),
                        [&](const LoopOperation& one) { return one.begin >= lookup.end; });
    if (next == all.end()) break;
    rows.push_back(*next++);
  }
  return rows;
}

PipelineRun full_size(PipelineKind kind, const LookupOptions& lookup = {}, double optimizer = 1,
                      const char* device = "virtual:h100", std::size_t batches = 5) {
  Workload workload = Workload::named("pr2916");
  workload.num_batches = batches;
  PipelineCell cell{.device = device, .pipeline = kind, .optimizer_work = optimizer};
  cell.options.lookup = lookup;
  cell.options.stale.start_batch = 0;
  return run_pipeline(cell, workload, 1);
}

}  // namespace

TEST_CASE("each lookup is followed by its exchange, and the first exchange overlaps lookup 2") {
  for (const PipelineKind kind : kPipelineKinds) {
    INFO(to_string(kind));
    const PipelineRun run = full_size(kind);
    const Operations lookups = of(run, "look up"), exchanges = exchanges_of_rows(run);
    REQUIRE(lookups.size() == 10);
    REQUIRE(exchanges.size() == 10);
    for (std::size_t i = 0; i < lookups.size(); ++i) {
      CHECK(exchanges[i].begin >= lookups[i].end);
      if (i % 2 == 0) CHECK(overlap(exchanges[i], lookups[i + 1]));
    }
  }
}

TEST_CASE("semi-sync overlaps the exchange of rows with backward, sparse-dist does not") {
  for (const PipelineKind kind : {PipelineKind::sparse_dist, PipelineKind::semi_sync}) {
    const PipelineRun run = full_size(kind);
    const Operations exchanges = exchanges_of_rows(run);
    const Operations backward = of(run, "linear backward");
    std::size_t hidden = 0;
    for (const LoopOperation& exchange : exchanges) {
      hidden += overlaps_one(exchange, backward) ? 1 : 0;
    }
    // The second of two exchanges, for four of five batches. Nothing precedes the first batch.
    CHECK(hidden == (kind == PipelineKind::semi_sync ? 4 : 0));
  }
}

TEST_CASE("the all-reduce of dense gradients overlaps the update of tables") {
  for (const PipelineKind kind : kPipelineKinds) {
    INFO(to_string(kind));
    const PipelineRun run = full_size(kind);
    const Operations sums = of(run, "all-reduce"), updates = of(run, "update tables");
    REQUIRE(sums.size() == 5);
    for (const LoopOperation& sum : sums) CHECK(overlaps_one(sum, updates));
  }
}

TEST_CASE("the runtimes have the published order on A100 and H100") {
  const char* const device = GENERATE("virtual:h100", "virtual:a100");
  const auto runtime = [&](PipelineKind kind) {
    return full_size(kind, {}, 1, device, 10).runtime;  // the published number of batches
  };
  CHECK(runtime(PipelineKind::fused_sparse_dist) < runtime(PipelineKind::sparse_dist));
  CHECK(runtime(PipelineKind::semi_sync) < runtime(PipelineKind::fused_sparse_dist));
}

TEST_CASE("a longer optimizer hides more of a lookup on another stream") {
  const auto share = [](double work) {
    const auto time = [&](PipelineKind kind) {
      return static_cast<double>(full_size(kind, {}, work).runtime.count());
    };
    return time(PipelineKind::fused_sparse_dist) / time(PipelineKind::sparse_dist);
  };
  CHECK(share(8) < share(1));
}

TEST_CASE("a lookup on its own stream reserves more memory") {
  const auto reserved = [](LookupStream stream) {
    return full_size(PipelineKind::fused_sparse_dist, {.stream = stream}).memory.reserved.peak;
  };
  CHECK(reserved(LookupStream::own) > reserved(LookupStream::data_dist));
  CHECK(reserved(LookupStream::data_dist) > reserved(LookupStream::main));
}

TEST_CASE("evaluation runs forward on every batch, updates nothing and takes less time") {
  const Workload workload = small_pr2916();
  for (const PipelineKind kind : {PipelineKind::base, PipelineKind::fused_sparse_dist}) {
    const PipelineRun run = run_pipeline({.pipeline = kind, .forward_only = true}, workload, 1);
    CHECK(of(run, "loss").size() == workload.num_batches);
    CHECK(of(run, "update tables").empty());
    CHECK(of(run, "step").empty());
    CHECK(run.races.empty());
    CHECK(run.runtime < run_pipeline({.pipeline = kind}, workload, 1).runtime);
  }
  const PipelineRun fused =
      run_pipeline({.pipeline = PipelineKind::fused_sparse_dist, .forward_only = true},
                   Workload::named("pr2916"), 1);
  const Operations lookups = of(fused, "look up");
  Operations forward = of(fused, "join columns");
  for (const LoopOperation& one : of(fused, "linear")) forward.push_back(one);
  std::size_t beside = 0;
  for (const LoopOperation& lookup : lookups) beside += overlaps_one(lookup, forward) ? 1 : 0;
  CHECK(beside >= lookups.size() - 4);  // except lookups of the batches that fill the pipeline
  CHECK_THROWS_AS(
      run_pipeline({.pipeline = PipelineKind::semi_sync, .forward_only = true}, workload, 1),
      std::invalid_argument);
}

TEST_CASE("a timeline of a comparison has operations of all ranks and changes no time") {
  const Workload workload = small_pr2916();
  Timeline timeline;
  const PipelineRun recorded = run_pipeline({}, workload, 1, &timeline);
  const PipelineRun run = run_pipeline({}, workload, 1);
  CHECK(timeline.recorded() > run.operations.size());
  CHECK(timeline.left_out() == 0);
  CHECK(recorded.runtime == run.runtime);
  CHECK(std::ranges::any_of(run.operations, [](const auto& one) { return one.rank == 1; }));
}
