#include "test/experiment/loop_case.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

// Traps in the training loop of a workload. Their numbers are those of
// test/pipeline/schedule/traps.cpp.

using namespace millrace;
using namespace millrace::experiment;
using namespace millrace::test;

namespace {

using Uses = std::set<std::string>;

Uses uses_recorded(const LoopCase& loop) {
  Uses uses;
  for (const std::string& edge : run(loop).edges) {
    if (edge.find(" used by ") != std::string::npos) uses.insert(edge);
  }
  return uses;
}

}  // namespace

TEST_CASE("traps 1, 4 and 5: each edge between lookup, forward, backward and update exists") {
  const LookupStream stream = GENERATE(LookupStream::data_dist, LookupStream::own);
  const Waits waits = GENERATE(Waits::coarse, Waits::precise);
  const std::set<std::string> edges = run({.waits = waits,
                                           .shape = PipelineKind::fused_sparse_dist,
                                           .ranks = 1,
                                           .lookup = {.stream = stream}})
                                          .edges;
  const std::string on = stream == LookupStream::own ? "lookup" : "data-dist";
  CHECK(edges.contains("main waits for " + on));   // pooled rows, before forward
  CHECK(edges.contains(on + " waits for main"));   // gradients, before the update
  CHECK(edges.contains("features used by main"));  // pooled rows
  CHECK(edges.contains("features used by " + on));
}

TEST_CASE("trap 3: without the record of main's use, features are corrupted") {
  LoopCase loop{.waits = GENERATE(Waits::coarse, Waits::precise), .ranks = 1};
  loop.left_out = "features used by main";
  bool corrupted = false;
  for (std::uint64_t seed = 1; seed <= 64 && !corrupted; ++seed) {
    loop.schedule = test::seed() + seed;
    const LoopOutcome outcome = run(loop);
    CHECK_FALSE(outcome.races.empty());
    corrupted = outcome.corrupted > 0;
  }
  CHECK(corrupted);
}

TEST_CASE("trap 6: exactly the streams that use a tensor are recorded") {
  const CopyMethod method = GENERATE(CopyMethod::side_stream, CopyMethod::in_place,
                                     CopyMethod::precise, CopyMethod::driver_async);
  const Waits waits = GENERATE(Waits::coarse, Waits::precise);
  const auto uses = [&](PipelineKind kind) {
    return uses_recorded({.method = method, .waits = waits, .shape = kind});
  };
  CHECK(uses(PipelineKind::sparse_dist) ==
        Uses{"batch used by data-dist", "batch used by main", "features used by main"});
  CHECK(uses(PipelineKind::base) == Uses{"batch used by main"});
  CHECK(uses(PipelineKind::sparse_dist_lite) == Uses{"batch used by main"});
}

TEST_CASE("semi-sync with in-place copies: data-dist has to wait for each copy") {
  LoopCase loop{.method = CopyMethod::in_place,
                .waits = GENERATE(Waits::coarse, Waits::precise),
                .shape = PipelineKind::semi_sync,
                .ranks = 1,
                .stale = {.start_batch = 0}};
  CHECK(run(loop).races == std::vector<std::string>{});
  loop.left_out = "data-dist waits for copy";
  CHECK_FALSE(run(loop).races.empty());
}

TEST_CASE("features that precise frees early need the marker of their exchange") {
  LoopCase loop{.method = CopyMethod::precise,
                .shape = PipelineKind::sparse_dist,
                .ranks = 1,
                .savers = {.batch = true, .exchanged_inputs = true, .features = true}};
  CHECK(run(loop).races == std::vector<std::string>{});
  CHECK(run(loop).edges.contains("batch freed by main's marker"));
  loop.left_out = "batch freed by data-dist's marker";
  CHECK_FALSE(run(loop).races.empty());
}

TEST_CASE("trap 15: with precise waits data-dist and main both wait for the copy of a batch") {
  const LoopOutcome outcome = run({.waits = Waits::precise});
  CHECK(outcome.edges.contains("data-dist waits for copy"));
  CHECK(outcome.edges.contains("main waits for copy"));
}
