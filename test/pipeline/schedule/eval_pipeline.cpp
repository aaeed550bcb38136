#include "millrace/pipeline/schedule/eval_pipeline.hpp"

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

/// Of a model that was trained a little, by hand.
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

PipelineSetting setting(PipelineRig& rig) {
  return {
      .streams = rig.streams, .batches = rig.memory, .model = *rig.model, .exchange = rig.exchange};
}

}  // namespace

TEST_CASE("evaluation gives the logits of the plain loop, and leaves the model as it is") {
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

TEST_CASE("training goes on behind an evaluation in its midst, with the bits of the plain loop") {
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

TEST_CASE("nothing is evaluated semi-synchronously") {
  PipelineRig rig{{.kind = PipelineKind::semi_sync}};
  CHECK_THROWS_WITH((EvalPipeline{PipelineKind::semi_sync, setting(rig)}),
                    ContainsSubstring("fused-sparse-dist"));
}
