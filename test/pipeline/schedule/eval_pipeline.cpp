#include "millrace/pipeline/schedule/eval_pipeline.hpp"

#include <set>

#include "test/pipeline/schedule/pipeline_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::size_t kTrained = 3;
constexpr std::size_t kBatches = 9;
using Logits = std::vector<std::vector<float>>;

SparseNN& network(PipelineRig& rig) { return static_cast<SparseNN&>(*rig.model); }

/// Logits of a slightly trained model, evaluated one batch at a time without a pipeline.
Logits plain_logits() {
  PipelineRig rig{{.model = RigModel::sparse_nn}};
  for (std::size_t number = 0; number < kTrained; ++number) rig.plain_step(number);
  Logits logits;
  for (std::size_t number = 0; number < kBatches; ++number) {
    const PipelineRig::OnDevice batch = rig.upload(number);
    const auto lookup = rig.model->look_up(batch.features, rig.streams.main);
    rig.model->forward(batch.input, *lookup);
    logits.push_back(network(rig).logits());
    rig.model->abandon();
  }
  return logits;
}

PipelineEnvironment setting(PipelineRig& rig) {
  return {.streams = rig.streams,
          .batches = rig.batches,
          .model = *rig.model,
          .exchange = rig.exchange};
}

}  // namespace

TEST_CASE("evaluation gives the logits of the plain loop, and does not change the model") {
  const Logits expected = plain_logits();
  for (const PipelineKind kind : {PipelineKind::sparse_dist, PipelineKind::fused_sparse_dist}) {
    for (const Waits waits : {Waits::coarse, Waits::precise}) {
      for (const LookupPosition position : kLookupPositions) {
        for (std::uint64_t seed = 0; seed <= 3; ++seed) {
          PipelineRig rig{{.kind = kind,
                           .schedule = seed == 0 ? 0 : test::seed() * 100 + seed,
                           .model = RigModel::sparse_nn}};
          for (std::size_t number = 0; number < kTrained; ++number) rig.plain_step(number);
          const std::vector<float> before = rig.parameters();
          EvalPipeline pipeline{
              kind,
              setting(rig),
              {.waits = waits,
               .lookup = {.position = position, .stream = LookupStream::data_dist}}};
          RigSource source{rig, 0, kBatches};
          Logits logits;
          while (pipeline.progress(source)) logits.push_back(network(rig).logits());
          INFO(to_string(kind) << ", " << to_string(position) << ", seed " << seed);
          CHECK(logits == expected);
          CHECK(rig.parameters() == before);
          CHECK(pipeline.batches() == kBatches);
          CHECK(rig.races() == std::vector<std::string>{});
        }
      }
    }
  }
}

namespace {

struct EvalCase {
  PipelineKind kind;
  CopyMethod copy;
  Waits waits;
  LookupStream stream = LookupStream::data_dist;
};

struct Evaluated {
  Logits logits;  ///< of the last batch; empty for RigModel::tiny
  std::set<std::string> edges;
  std::vector<std::string> races;
};

Evaluated evaluate(const EvalCase& what, RigModel model, const std::string& left_out,
                   std::uint64_t schedule) {
  PipelineRig rig{{.kind = what.kind,
                   .copy = what.copy,
                   .schedule = schedule,
                   .model = model,
                   .left_out = left_out}};
  EvalPipeline pipeline{
      what.kind,
      setting(rig),
      {.copy = what.copy, .waits = what.waits, .lookup = {.stream = what.stream}}};
  RigSource source{rig, 0, 14};
  while (pipeline.progress(source)) {
  }
  Evaluated result{.edges = rig.edges()};  // before the test's own wait
  rig.streams.main.synchronize();
  result.races = rig.races();
  if (model != RigModel::tiny) result.logits.push_back(network(rig).logits());
  return result;
}

/// Edges that other edges imply, each with the reason.
std::set<std::string> redundant(const EvalCase& what) {
  std::set<std::string> edges;
  // A batch that is freed on main, or by main's marker, needs no record of main's use.
  if (what.copy != CopyMethod::side_stream) edges.insert("batch used by main");
  if (what.kind == PipelineKind::base || what.kind == PipelineKind::sparse_dist_lite) return edges;
  edges.insert("batch used by data-dist");  // main waits for that use before it frees the batch
  if (what.waits == Waits::precise) edges.insert("main waits for copy");  // data-dist waited for it
  return edges;
}

}  // namespace

TEST_CASE("each edge of an evaluation is reported as a race when left out, or is redundant") {
  using enum PipelineKind;
  for (const Waits waits : {Waits::coarse, Waits::precise}) {
    for (const EvalCase& what :
         {EvalCase{base, CopyMethod::side_stream, waits},
          EvalCase{sparse_dist_lite, CopyMethod::side_stream, waits},
          EvalCase{sparse_dist, CopyMethod::precise, waits},
          EvalCase{fused_sparse_dist, CopyMethod::precise, waits, LookupStream::data_dist},
          EvalCase{fused_sparse_dist, CopyMethod::precise, waits, LookupStream::own}}) {
      const Evaluated whole = evaluate(what, RigModel::sparse_nn, "", 0);
      const std::set<std::string> implied = redundant(what);
      for (const std::string& edge : whole.edges) {
        INFO(to_string(what.kind) << ", " << to_string(waits) << ", " << to_string(what.stream)
                                  << ", without: " << edge);
        for (std::uint64_t number = 0; number < 2; ++number) {
          const std::uint64_t schedule = number == 0 ? 0 : test::seed() * 100 + number;
          if (implied.contains(edge)) {
            const Evaluated without = evaluate(what, RigModel::sparse_nn, edge, schedule);
            CHECK(without.races == std::vector<std::string>{});
            CHECK(without.logits == whole.logits);
          } else {  // a race can produce any ids and lengths; only the tiny model tolerates them
            CHECK_FALSE(evaluate(what, RigModel::tiny, edge, schedule).races.empty());
          }
        }
      }
    }
  }
}

TEST_CASE("evaluation of cached tables with a prefetch gives the logits of the plain loop") {
  const Logits expected = plain_logits();
  for (const Waits waits : {Waits::coarse, Waits::precise}) {
    for (std::uint64_t seed = 0; seed <= 3; ++seed) {
      PipelineRig rig{{.kind = PipelineKind::prefetch_sparse_dist,
                       .schedule = seed == 0 ? 0 : test::seed() * 100 + seed,
                       .model = RigModel::sparse_nn,
                       .cache = TableCache{}}};
      for (std::size_t number = 0; number < kTrained; ++number) rig.plain_step(number);
      EvalPipeline pipeline{PipelineKind::prefetch_sparse_dist, setting(rig), {.waits = waits}};
      RigSource source{rig, 0, kBatches};
      Logits logits;
      while (pipeline.progress(source)) logits.push_back(network(rig).logits());
      CHECK(logits == expected);
      CHECK(rig.races() == std::vector<std::string>{});
    }
  }
}

TEST_CASE("training with an evaluation in the middle gives the bits of the plain loop") {
  const std::vector<float> expected = plainly_trained(kBatches, RigModel::sparse_nn_plain);
  const PipelineCase what{
      .kind = PipelineKind::fused_sparse_dist,
      .waits = Waits::precise,
      .model = RigModel::sparse_nn_plain,
      .lookup = {.position = GENERATE(from_range(kLookupPositions)), .stream = LookupStream::own}};
  PipelineRig rig{what};
  auto training = rig.make();
  RigSource source{rig, 0, kBatches};
  for (int step = 0; step < 4; ++step) REQUIRE(training->progress(source));

  TrainModel& model = training->detach();
  {
    EvalPipeline evaluation{what.kind, setting(rig), {.lookup = {.stream = LookupStream::own}}};
    RigSource test{rig, 20, 25};
    while (evaluation.progress(test)) {
    }
    CHECK(evaluation.held() == 0);
  }
  training->attach(model);
  while (training->progress(source)) {
  }
  training.reset();
  CHECK(rig.parameters() == expected);
  CHECK(rig.races() == std::vector<std::string>{});
}

TEST_CASE("semi-sync is refused for evaluation") {
  PipelineRig rig{{.kind = PipelineKind::semi_sync}};
  CHECK_THROWS_WITH((EvalPipeline{PipelineKind::semi_sync, setting(rig)}),
                    "semi-sync is for training: without updates no lookup is stale; use "
                    "sparse-dist or fused-sparse-dist");
}

TEST_CASE("a kind of pipeline evaluates, or names the kind that evaluates in its place") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  PipelineRig rig{{.kind = kind}};
  if (const auto other = traits_of(kind).evaluated_by) {
    CHECK_FALSE(traits_of(*other).evaluated_by);
    CHECK_THROWS_AS((EvalPipeline{kind, setting(rig)}), std::invalid_argument);
  } else {
    CHECK_NOTHROW(EvalPipeline{kind, setting(rig)});
  }
}
