#include <set>

#include "test/pipeline/schedule/pipeline_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

// Like left_out_edges.cpp, for pipelines that really train. Their exchange has one rank
// (LocalExchange).

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr std::size_t kLeftOutBatches = 10;
constexpr std::uint64_t kSeeds = 60;          // the checker must name a left-out edge within these
constexpr std::uint64_t kRedundantSeeds = 4;  // the checker must not name a redundant edge

struct Outcome {
  std::set<std::string> edges;
  std::vector<std::string> races;
  std::vector<float> parameters;
};

Outcome run_without(const PipelineCase& what) {
  PipelineRig rig{what};
  auto pipeline = rig.make();
  RigSource source{rig, 0, kLeftOutBatches};
  while (pipeline->progress(source)) {
  }
  pipeline.reset();
  Outcome outcome{.edges = rig.edges(), .parameters = rig.parameters()};
  outcome.races = rig.races();
  return outcome;
}

/// Edges that other edges imply, each with the reason.
std::set<std::string> redundant_edges(const PipelineCase& what) {
  std::set<std::string> edges;
  if (what.kind == PipelineKind::sparse_dist) {
    edges.insert("batch used by data-dist");  // main waits for that use before it frees the batch
    if (what.waits == Waits::precise) edges.insert("main waits for copy");        // data-dist did
    if (what.copy == CopyMethod::ring) edges.insert("copy waits for data-dist");  // main did
  }
  // A batch that is freed on main, or by main's marker, needs no record of main's use.
  if (what.copy != CopyMethod::side_stream) edges.insert("batch used by main");
  return edges;
}

/// Batches this small are copied into memory that was never used, not into memory that main may
/// still read. left_out_edges.cpp has larger batches and names this edge.
bool too_small_for(const PipelineCase& without) {
  return without.kind == PipelineKind::sparse_dist && without.copy == CopyMethod::side_stream &&
         without.left_out == "batch used by main";
}

/// True if the checker names the left-out edge under one of the schedules.
bool named_edges(PipelineCase what) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    what.schedule = seed == 0 ? 0 : test::seed() + seed;
    if (!run_without(what).races.empty()) return true;
  }
  return false;
}

bool harmless(PipelineCase what, const std::vector<float>& expected) {
  for (std::uint64_t seed = 0; seed < kRedundantSeeds; ++seed) {
    what.schedule = seed == 0 ? 0 : test::seed() + seed;
    const Outcome outcome = run_without(what);
    if (!outcome.races.empty() || outcome.parameters != expected) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("each edge of a pipeline with a LocalExchange is named when left out, or is redundant") {
  const std::vector<float> expected = plainly_trained(kLeftOutBatches);
  const PipelineKind kind =
      GENERATE(PipelineKind::base, PipelineKind::sparse_dist, PipelineKind::sparse_dist_lite);
  for (const PipelineCase& what : cases_of(kind)) {
    if (what.policy == "torch") continue;  // left_out_edges.cpp tests this policy
    const std::set<std::string> implied = redundant_edges(what);
    const Outcome whole = run_without(what);
    CHECK(whole.parameters == expected);
    if (what.kind == PipelineKind::sparse_dist)
      CHECK(whole.edges.contains("features used by main"));
    for (const std::string& edge : whole.edges) {
      PipelineCase without = what;
      without.left_out = edge;
      INFO(without.name());
      if (too_small_for(without)) continue;
      if (implied.contains(edge)) {
        CHECK(harmless(without, expected));
      } else {
        CHECK(named_edges(without));
      }
    }
  }
}
