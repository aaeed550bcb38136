#include "millrace/pipeline/schedule/trainer.hpp"

#include <cmath>

#include "millrace/pipeline/data/synthetic_source.hpp"
#include "millrace/pipeline/model/checkpoint.hpp"
#include "millrace/pipeline/schedule/local_exchange.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::size_t kBatch = 48;

SyntheticSettings small_data() {
  return {.batch_size = kBatch,
          .examples = 8 * kBatch - 5,  // the last batch is short
          .dense_features = 2,
          .sparse = {{.feature = {"a", "a", 40}, .pooling = 2, .fewest = 0, .skew = 1},
                     {.feature = {"b", "b", 60}, .pooling = 1}},
          .weighted = {{.feature = {"w", "w", 30}, .pooling = 2}},
          .seed = test::seed()};
}

SparseNNConfig small_model() {
  return {.dense_features = 2,
          .tables = {{"a", 40, 4, Pooling::sum, {"a"}}, {"b", 60, 4, Pooling::mean, {"b"}}},
          .weighted_tables = {{"w", 30, 4, Pooling::sum, {"w"}}},
          .position_weights = {{"a", 2}},
          .dense_arch = {8, 4},
          .over_arch = {8},
          .table_optimizer = {.kind = OptimizerKind::rowwise_adagrad, .learning_rate = 0.1F},
          .dense_optimizer = {.kind = OptimizerKind::adam, .learning_rate = 0.01F},
          .seed = 3};
}

struct Run {
  explicit Run(const TrainingOptions& options, const SparseNNConfig& model = small_model())
      : device(options), source(small_data(), device.staging()), trainer(device, model, source) {}

  void train_epochs(int epochs) {
    for (int epoch = 0; epoch < epochs; ++epoch) {
      while (trainer.step()) {
      }
      trainer.resume(trainer.steps(), {source.position().epoch + 1, 0});
    }
  }
  std::string digest() { return state_digest(trainer.model().state(), trainer.context()); }

  TrainingDevice device;
  SyntheticSource source;
  Trainer trainer;
};

/// One batch after the other, by hand, with nothing under way.
std::string plain_loop() {
  TrainingDevice device{{}};
  Stream& main = device.streams().main;
  SyntheticSource source{small_data(), device.staging()};
  ModelContext context{device.memory(), main};
  SparseNN model{context, small_model()};
  LocalExchange exchange{device.memory(), model.bags().features(),
                         model.weighted_bags().features()};
  const auto strategy = CopyStrategy::make(
      CopyMethod::side_stream,
      {.allocator = device.memory(), .main = main, .copy = device.streams().copy});
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (auto batch = source.next()) {
      DeviceModelInput input = batch->to(*strategy, device.streams().copy);
      batch->release(input.copied());
      input.hand_to(main);
      main.synchronize();
      const auto exchanged = exchange.start(input.tensors(), main);
      exchanged->receive(Waits::coarse);
      train_plainly(model, main, input.tensors(), exchanged->arrange());
      input.release();
      main.synchronize();
    }
    source.next_epoch();
  }
  return state_digest(model.state(), context);
}

}  // namespace

TEST_CASE(
    "every pipeline, copy strategy, kind of waits and allocator gives the plain loop's bits") {
  const std::string expected = plain_loop();
  for (const PipelineKind kind : kPipelineKinds) {
    for (const CopyMethod copy : kCopyMethods) {
      for (const Waits waits : {Waits::coarse, Waits::precise}) {
        INFO(to_string(kind) << ", " << to_string(copy));
        Run run{{.pipeline = kind,
                 .copy = copy,
                 .waits = waits,
                 .lookup = {.order_after_dense = true},  // it has position weights
                 .check_races = true}};
        run.train_epochs(2);
        CHECK(run.digest() == expected);
        CHECK(run.device.accounting().races.value_or(std::vector<std::string>{}).empty());
      }
    }
  }
  for (const char* const allocator : {"torch", "driver"}) {
    Run run{{.allocator = allocator, .pipeline = PipelineKind::sparse_dist}};
    run.train_epochs(2);
    CHECK(run.digest() == expected);
  }
}

TEST_CASE("a trainer stops at a step, drains anywhere, and goes on with the same bits") {
  Run whole{{.pipeline = PipelineKind::sparse_dist}};
  whole.train_epochs(2);
  Run parts{{.pipeline = PipelineKind::sparse_dist}};
  parts.trainer.stop_at(3);
  while (parts.trainer.step()) {
  }
  CHECK(parts.trainer.steps() == 3);
  parts.trainer.stop_at(100);
  parts.trainer.resume(3, {0, 3});
  CHECK(parts.trainer.step());
  parts.trainer.drain();
  CHECK(parts.trainer.steps() > 3);
  CHECK(parts.source.position().batch == parts.trainer.steps());
  parts.train_epochs(2);
  CHECK(parts.trainer.steps() == whole.trainer.steps());
  CHECK(parts.digest() == whole.digest());
}

TEST_CASE("progress is the mean loss over all examples since it was last asked for") {
  Run run{{.pipeline = PipelineKind::base}};
  double sum = 0;
  std::uint64_t examples = 0;
  while (run.trainer.step()) {
    const TrainingProgress step = run.trainer.take_progress();
    CHECK(step.steps == 1);
    sum += step.loss * static_cast<double>(step.examples);
    examples += step.examples;
  }
  CHECK(examples == small_data().examples);
  Run again{{.pipeline = PipelineKind::sparse_dist_lite}};
  while (again.trainer.step()) {
  }
  const TrainingProgress all = again.trainer.take_progress();
  CHECK(all.steps == 8);
  CHECK(all.examples == examples);
  CHECK(std::abs(all.loss - sum / static_cast<double>(examples)) < 1e-12);
  CHECK(again.trainer.take_progress().steps == 0);
}

TEST_CASE("evaluating changes no bit, and covers every example") {
  Run run{{}};
  run.train_epochs(1);
  const std::string before = run.digest();
  SyntheticSource test{small_data(), run.device.staging()};
  const Evaluation first = run.trainer.evaluate(test);
  CHECK(first.examples == small_data().examples);
  CHECK(run.digest() == before);
  CHECK((first.auc > 0 && first.auc < 1));
  test.seek({0, 0});
  CHECK(run.trainer.evaluate(test).auc == first.auc);
}

TEST_CASE("evaluating through any pipeline gives the same figures, without a race") {
  std::optional<Evaluation> expected;
  for (const PipelineKind kind : kPipelineKinds) {
    for (const CopyMethod copy : kCopyMethods) {
      Run run{{.pipeline = kind,
               .copy = copy,
               .waits = copy == CopyMethod::precise ? Waits::precise : Waits::coarse,
               .lookup = {.order_after_dense = true},  // it has position weights
               .check_races = true}};
      run.train_epochs(1);
      INFO(to_string(kind) << ", " << to_string(copy));
      SyntheticSource test{small_data(), run.device.staging()};
      const Evaluation tested = run.trainer.evaluate(test);
      if (!expected) expected = tested;
      CHECK(tested.auc == expected->auc);
      CHECK(tested.loss == expected->loss);
      CHECK(tested.examples == small_data().examples);
      CHECK(run.device.accounting().races == std::vector<std::string>{});
    }
  }
}

TEST_CASE("an id that is no row of the model's table ends training, table and value named") {
  SparseNNConfig model = small_model();
  model.tables[1].rows = 5;
  Run run{{}, model};
  CHECK_THROWS_WITH(run.train_epochs(1),
                    ContainsSubstring("'b'") && ContainsSubstring("which has 5"));
}

TEST_CASE("the accounting of a run adds up, and names its streams") {
  Run run{{.pipeline = PipelineKind::sparse_dist, .copy = CopyMethod::precise}};
  run.train_epochs(1);
  const TrainingAccounting accounting = run.device.accounting();
  const Ladder& ladder = accounting.ladder;
  CHECK(accounting.whole_ladder);
  CHECK(ladder.requested > 0);
  CHECK(ladder.requested <= ladder.rounded);
  CHECK(ladder.packed <= ladder.reserved);
  CHECK(ladder.reserved == accounting.bytes.reserved.peak);
  CHECK(accounting.bytes.active.peak <= accounting.bytes.reserved.peak);
  CHECK(accounting.streams.size() == 3);
}
