#include <algorithm>
#include <optional>

#include "millrace/pipeline/model/forwarding_model.hpp"
#include "test/pipeline/schedule/scripted_parts.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

// Traps of the reference's pipelines that these pipelines can fall into, with the reference's
// numbers. Trap 17 needs chunked copies. Trap 14 is tested in exactness.cpp. The tests of the
// experiments' loops cover 3, 6, 9, 15 and parts of 1, 4 and 5.

using namespace millrace;
using namespace millrace::test;

namespace {

/// Reads in backward what only forward may read.
class LateReader final : public ForwardingModel {
 public:
  explicit LateReader(PipelineRig& rig) : ForwardingModel(*rig.model), rig_(rig) {}
  void forward(const InputTensors& input, TableLookup& lookup) override {
    dense_ = input.dense;
    ForwardingModel::forward(input, lookup);
  }
  void backward(TableLookup& lookup) override {
    if (!dense_.empty()) read_dense();
    ForwardingModel::backward(lookup);
  }

 private:
  void read_dense() {
    rig_.device.launch({.name = "late read",
                        .views = {{dense_.data(), dense_.bytes(), Access::read}},
                        .cost = {.fixed = Nanoseconds{1000}}},
                       rig_.streams.main.handle());
  }

  PipelineRig& rig_;
  BatchTensor dense_;
};

/// Keeps the features of its last batch.
class Keeper final : public ForwardingModel {
 public:
  using ForwardingModel::ForwardingModel;
  std::unique_ptr<TableLookup> look_up(const SparseFeatures& features, Stream& stream) override {
    kept = features;
    return ForwardingModel::look_up(features, stream);
  }
  SparseFeatures kept;
};

/// Live bytes of a tag at the start of backward and of the optimizer step.
class FeatureMeter final : public ForwardingModel {
 public:
  explicit FeatureMeter(PipelineRig& rig, std::string tag = "features")
      : ForwardingModel(*rig.model), rig_(rig), tag_(std::move(tag)) {}
  void backward(TableLookup& lookup) override {
    at_backward = live();
    ForwardingModel::backward(lookup);
  }
  void optimizer_step() override {
    at_optimizer = live();
    ForwardingModel::optimizer_step();
  }
  std::size_t at_backward = 0, at_optimizer = 0;

 private:
  std::size_t live() {
    for (const ShareStatistics& tag : rig_.memory.statistics().tags) {
      if (tag.name == tag_) return tag.allocated.current;
    }
    return 0;
  }

  PipelineRig& rig_;
  const std::string tag_;
};

std::size_t count(const std::vector<std::string>& log, const std::string& line) {
  return static_cast<std::size_t>(std::count(log.begin(), log.end(), line));
}

std::vector<std::string> logged(const PipelineCase& what) {
  ScriptedPipeline parts{what};
  ScriptedSource source = parts.source(0, 8);
  while (parts.pipeline->progress(source)) {
  }
  return parts.script.take();
}

}  // namespace

TEST_CASE("trap 1: an update on a stream that the pipeline does not order is a race") {
  /// Updates on a stream on which the pipeline did not order the update.
  class Elsewhere final : public ForwardingModel {
   public:
    Elsewhere(TrainModel& inner, Stream& stream) : ForwardingModel(inner), stream_(stream) {}
    void update_tables(TableLookup& lookup, Stream&) override {
      ForwardingModel::update_tables(lookup, stream_);
    }

   private:
    Stream& stream_;
  };
  const PipelineCase what{.kind = PipelineKind::fused_sparse_dist,
                          .lookup = {.stream = GENERATE(from_range(kLookupStreams))}};
  PipelineRig rig{what};
  Stream elsewhere{rig.ordered, {.name = "elsewhere"}};
  Elsewhere model{*rig.model, elsewhere};
  const auto pipeline = rig.make(what, model);
  RigSource source{rig, 0, 6};
  while (pipeline->progress(source)) {
  }
  CHECK_FALSE(rig.races().empty());
}

TEST_CASE("trap 2: with precise waits a step is done before the next batch is copied") {
  const Waits waits = GENERATE(Waits::coarse, Waits::precise);
  PipelineRig rig{{.waits = waits}};
  const auto pipeline = rig.make();
  RigSource source{rig, 0, 4};
  std::optional<Gate> copies;
  source.before = [&](std::size_t number) {
    if (number == 1) copies.emplace(rig.device.enqueue_gate(rig.streams.copy.handle()));
  };
  REQUIRE(pipeline->progress(source));
  rig.machine.executor().spend(std::chrono::seconds{1});
  CHECK(rig.device.query(rig.streams.main.handle()) == (waits == Waits::precise));
  copies->open();
  while (pipeline->progress(source)) {
  }
  CHECK(rig.parameters() == plainly_trained(4));
}

TEST_CASE("trap 7: a model that reads a batch after its release is reported as a race") {
  const PipelineCase what{.kind = PipelineKind::base,
                          .copy = GENERATE(CopyMethod::side_stream, CopyMethod::in_place,
                                           CopyMethod::precise, CopyMethod::ring)};
  PipelineRig rig{what};
  LateReader late{rig};
  const auto pipeline = rig.make(what, late);
  RigSource source{rig, 0, 6};
  while (pipeline->progress(source)) {
  }
  CHECK_FALSE(rig.races().empty());
}

TEST_CASE("trap 8: features that pipeline and model share are freed by the last owner") {
  const PipelineCase what{.kind = GENERATE(from_range(kPipelineKinds))};
  PipelineRig rig{what};
  Keeper keeper{*rig.model};
  auto pipeline = rig.make(what, keeper);
  RigSource source{rig, {5}};
  REQUIRE(pipeline->progress(source));
  CHECK(pipeline->held() == 0);
  CHECK(rig.live_blocks() > 0);
  pipeline.reset();
  CHECK(rig.live_blocks() > 0);
  keeper.kept = {};
  CHECK(rig.live_blocks() == 0);
}

TEST_CASE("memory that savers free is gone when backward begins") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  const auto at_backward = [&](const MemorySavers& savers) {
    const PipelineCase what{.kind = kind, .savers = savers};
    PipelineRig rig{what};
    FeatureMeter meter{rig, "batch"};
    const auto pipeline = rig.make(what, meter);
    RigSource source{rig, {5}};
    REQUIRE(pipeline->progress(source));
    return meter.at_backward;
  };
  const std::size_t all = at_backward({});
  const std::size_t dense = at_backward({.features = true});
  CHECK(at_backward({.batch = true}) == 0);
  if (all > 0) {  // base and semi-sync free the batch after forward in any case
    CHECK(dense > 0);
    CHECK(dense < all);
  }
}

TEST_CASE("trap 10: the number of live blocks between steps does not grow") {
  const PipelineCase what{.kind = GENERATE(from_range(kPipelineKinds)),
                          .copy = GENERATE(from_range(kCopyMethods)),
                          .waits = GENERATE(Waits::coarse, Waits::precise)};
  PipelineRig rig{what};
  const auto pipeline = rig.make();
  RigSource source{rig, std::vector<std::size_t>(20, 5)};
  std::vector<std::size_t> live;
  for (int step = 0; step < 16; ++step) {
    REQUIRE(pipeline->progress(source));
    live.push_back(rig.live_blocks());
  }
  INFO(what.name());
  CHECK(std::set<std::size_t>(live.begin() + 2, live.end()).size() == 1);
}

TEST_CASE("trap 10: features are freed when the model releases them in backward") {
  const PipelineCase what{.kind = GENERATE(from_range(kPipelineKinds)),
                          .waits = GENERATE(Waits::coarse, Waits::precise)};
  PipelineRig rig{what};
  FeatureMeter meter{rig};
  const auto pipeline = rig.make(what, meter);
  RigSource source{rig, {5}};
  REQUIRE(pipeline->progress(source));
  CHECK(meter.at_backward > 0);
  CHECK(meter.at_optimizer == 0);
}

TEST_CASE("traps 11 and 12: each batch is drawn, started, received and arranged once") {
  PipelineCase what{.kind = GENERATE(from_range(kPipelineKinds)),
                    .waits = GENERATE(Waits::coarse, Waits::precise)};
  const std::vector<std::string> log = logged(what);
  const std::string on = " on " + expected_of(what.kind).exchange_on;
  for (std::size_t batch = 0; batch < 8; ++batch) {
    CHECK(count(log, fmt::format("draw {}", batch)) == 1);
    CHECK(count(log, fmt::format("start {}{}", batch, on)) == 1);
    CHECK(count(log, fmt::format("receive {}", batch)) == 1);
    CHECK(count(log, fmt::format("arrange {}", batch)) == 1);
    CHECK(count(log, fmt::format("look up {} on {}", batch, expected_of(what.kind).update_on)) ==
          1);
    CHECK(count(log, fmt::format("forward {}", batch)) == 1);
  }
  CHECK(count(log, "copy") == 8);
}

TEST_CASE("trap 12: no more batches are drawn ahead than the pipeline holds") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  const std::size_t ahead = expected_of(kind).at_rest;
  PipelineRig rig{{.kind = kind}};
  const auto pipeline = rig.make();
  RigSource source{rig, 0, 20};
  for (std::size_t step = 1; step <= 10; ++step) {
    REQUIRE(pipeline->progress(source));
    CHECK(source.drawn() == step + ahead);
  }
}

TEST_CASE("trap 13: two pipelines in one process are independent") {
  const PipelineCase one{.kind = PipelineKind::sparse_dist, .waits = Waits::precise};
  const PipelineCase other{.kind = PipelineKind::base, .copy = CopyMethod::ring, .schedule = 5};
  PipelineRig first{one}, second{other};
  const auto a = first.make(true), b = second.make(false);
  RigSource of_a{first, 0, 8}, of_b{second, 0, 8};
  for (int step = 0; step < 5; ++step) {
    REQUIRE(a->progress(of_a));
    REQUIRE(b->progress(of_b));
  }
  while (a->progress(of_a)) {
  }
  while (b->progress(of_b)) {
  }
  CHECK(first.parameters() == plainly_trained(8));
  CHECK(second.parameters() == plainly_trained(7));
}

TEST_CASE("trap 16: a source is not asked again after its end") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  PipelineRig rig{{.kind = kind}};
  const auto pipeline = rig.make();
  RigSource source{rig, 0, 5};
  while (pipeline->progress(source)) {
  }
  for (int again = 0; again < 3; ++again) CHECK_FALSE(pipeline->progress(source));
  CHECK(source.asked == 6);
}

TEST_CASE("trap 16: exchanges are called in the same order whatever the schedule") {
  PipelineCase what{.kind = GENERATE(from_range(kPipelineKinds)),
                    .waits = GENERATE(Waits::coarse, Waits::precise)};
  const std::vector<std::string> timed = logged(what);
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    what.schedule = test::seed() + seed;
    CHECK(logged(what) == timed);
  }
}

TEST_CASE("trap 18: a lookup goes through forward, backward and update once, in this order") {
  PipelineRig rig{{.model = RigModel::sparse_nn}};
  TrainModel& model = *rig.model;
  Stream& main = rig.streams.main;
  const ModelInput host = rig.load(5);
  const auto strategy = CopyStrategy::make(
      CopyMethod::in_place, {.allocator = rig.memory, .main = main, .copy = rig.streams.copy});
  DeviceModelInput input = host.to(*strategy);
  input.hand_to(main);
  const SparseFeatures features = rig.exchange.start(input.tensors(), main)->arrange();
  const auto one = model.look_up(features, main), other = model.look_up(features, main);

  model.zero_gradients();
  CHECK_THROWS_AS(model.update_tables(*one, main), std::logic_error);
  CHECK_THROWS_AS(model.backward(*one), std::logic_error);
  model.forward(input.tensors(), *one);
  CHECK_THROWS_AS(model.forward(input.tensors(), *one), std::logic_error);
  CHECK_THROWS_AS(model.backward(*other), std::logic_error);
  model.backward(*one);
  CHECK_THROWS_AS(model.backward(*one), std::logic_error);
  model.update_tables(*one, main);
  CHECK_THROWS_AS(model.update_tables(*one, main), std::logic_error);
  model.optimizer_step();
  input.release();
  CHECK(rig.parameters() == plainly_trained(std::vector<std::size_t>{5}, RigModel::sparse_nn));
}

TEST_CASE("trap 18: two tables with the same feature or with the same name are refused") {
  PipelineRig rig;
  const auto make = [&](std::vector<TableConfig> tables) {
    return EmbeddingBags{rig.context, std::move(tables), {}};
  };
  CHECK_THROWS_WITH(
      make({{"one", 9, 4, Pooling::sum, {"a"}}, {"other", 9, 4, Pooling::sum, {"a"}}}),
      Catch::Matchers::ContainsSubstring("looked up already"));
  CHECK_THROWS_WITH(make({{"one", 9, 4, Pooling::sum, {"a"}}, {"one", 9, 4, Pooling::sum, {"b"}}}),
                    Catch::Matchers::ContainsSubstring("occurs twice"));
}
