#include <set>

#include "test/pipeline/schedule/pipeline_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

// As left_out_edges.cpp, of pipelines that really train, with the exchange of one rank:
// LocalExchange.

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr std::size_t kLeftOutBatches = 10;
constexpr std::uint64_t kSeeds = 60;          // within which what is left out has to be named
constexpr std::uint64_t kRedundantSeeds = 4;  // over which what is redundant must not

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

/// Edges that others imply, each with the reason.
std::set<std::string> redundant_edges(const PipelineCase& what) {
  std::set<std::string> edges;
  if (what.kind == PipelineKind::sparse_dist) {
    edges.insert("batch used by data-dist");  // main waits for that use before the batch is freed
    if (what.waits == Waits::precise) edges.insert("main waits for copy");        // data-dist has
    if (what.copy == CopyMethod::ring) edges.insert("copy waits for data-dist");  // main has
  }
  // A batch that is freed on main, or by main's marker, needs no record of main's use.
  if (what.copy != CopyMethod::side_stream) edges.insert("batch used by main");
  return edges;
}

/// Batches as small as these are copied into memory that was never used rather than into what main
/// may still read. Larger ones are in left_out_edges.cpp, which names this edge.
bool too_small_for(const PipelineCase& without) {
  return without.kind == PipelineKind::sparse_dist && without.copy == CopyMethod::side_stream &&
         without.left_out == "batch used by main";
}

/// Whether the checker names it, on one of several host paths.
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

TEST_CASE(
    "each edge of pipelines with a LocalExchange is named when it is left out, or redundant") {
  const std::vector<float> expected = plainly_trained(kLeftOutBatches);
  const PipelineKind kind =
      GENERATE(PipelineKind::base, PipelineKind::sparse_dist, PipelineKind::sparse_dist_lite);
  for (const PipelineCase& what : cases_of(kind)) {
    if (what.policy == "torch") continue;  // left_out_edges.cpp has it
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
