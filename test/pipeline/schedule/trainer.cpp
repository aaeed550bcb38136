#include "millrace/pipeline/schedule/trainer.hpp"

#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "millrace/pipeline/data/synthetic_source.hpp"
#include "millrace/pipeline/model/checkpoint.hpp"
#include "millrace/pipeline/schedule/local_exchange.hpp"
#include "test/support/catch.hpp"
#include "test/support/scratch_folder.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::size_t kBatch = 48;
constexpr std::uint64_t kSteps = 8;  // steps per epoch

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

/// Trains on one batch after the other by hand, with nothing in flight.
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
      DeviceModelInput input = batch->to(*strategy);
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

TEST_CASE("every pipeline, copy strategy, kind of wait and allocator gives the plain loop's bits") {
  const std::string expected = plain_loop();
  for (const PipelineKind kind : kPipelineKinds) {
    for (const CopyMethod copy : kCopyMethods) {
      for (const Waits waits : {Waits::coarse, Waits::precise}) {
        INFO(to_string(kind) << ", " << to_string(copy));
        Run run{{.pipeline = kind,
                 .copy = copy,
                 .waits = waits,
                 .lookup = {.order_after_dense = true},  // the model has position weights
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

TEST_CASE("a trainer stops at a step, drains and continues with the same bits") {
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

namespace {

/// When `trained` saves a checkpoint.
struct Saving {
  std::uint64_t after = 0;  ///< save after this many steps; 0: save nothing
  bool ends = false;        ///< stop after saving
};

// Trains to the end of two epochs. Continues from `file` if `load`. @return the digest
std::string trained(const TrainingOptions& options, const std::filesystem::path& file,
                    const Saving& saving, bool load = false) {
  Run run{options};
  Trainer& trainer = run.trainer;
  BatchPosition position;
  if (load) {
    const Checkpoint checkpoint{file};
    static_cast<void>(trainer.restore(checkpoint));
    position = checkpoint.header().position;
  }
  if (saving.ends) trainer.stop_at(saving.after);
  while (position.epoch < 2) {
    if (!trainer.step()) {
      position = {position.epoch + 1, 0};
      trainer.resume(trainer.steps(), position);
      continue;
    }
    ++position.batch;
    if (trainer.steps() != saving.after) continue;
    trainer.drain();
    position.batch += trainer.steps() - saving.after;
    save_checkpoint(file, {.model = "{}", .steps = trainer.steps(), .position = position},
                    *trainer.checkpoint_state());
    if (saving.ends) break;
  }
  CHECK(run.device.accounting().races.value_or(std::vector<std::string>{}).empty());
  return run.digest();
}

}  // namespace

TEST_CASE("saving changes no bit of a run, and a resumed run ends with the same bits") {
  const test::ScratchFolder scratch;
  const std::filesystem::path file = scratch / "saved";
  std::vector<TrainingOptions> all;
  for (const PipelineKind kind : kPipelineKinds) {
    all.push_back({.pipeline = kind, .lookup = {.order_after_dense = true}});
  }
  for (const std::uint64_t start : {0U, 3U, 12U}) {
    for (const bool stashes : {false, true}) {
      all.push_back({.pipeline = PipelineKind::semi_sync,
                     .waits = stashes ? Waits::precise : Waits::coarse,
                     .stale = {.start_batch = start, .stash_gradients = stashes},
                     .check_races = true});
    }
  }
  std::set<std::string> digests;
  for (const TrainingOptions& options : all) {
    INFO(to_string(options.pipeline) << " from " << options.stale.start_batch
                                     << (options.stale.stash_gradients ? ", stashed" : ""));
    const std::string whole = trained(options, file, {});
    digests.insert(whole);
    for (const std::uint64_t steps : {1U, 3U, 4U, 7U, 8U, 11U}) {  // 8: the end of an epoch
      INFO("saved after " << steps);
      CHECK(trained(options, file, {.after = steps}) == whole);
      CHECK(trained(options, file, {}, true) == whole);
      static_cast<void>(trained(options, file, {.after = steps, .ends = true}));
      CHECK(trained(options, file, {}, true) == whole);
    }
  }
  CHECK(digests.size() == 1 + 6);  // one for all exact runs, one for each stale setting
}

TEST_CASE("every pipeline restores a checkpoint of semi-sync") {
  const test::ScratchFolder scratch;
  const std::filesystem::path file = scratch / "saved";
  const TrainingOptions stale{.pipeline = PipelineKind::semi_sync,
                              .stale = {.start_batch = 0, .stash_gradients = true}};
  const std::string digest = trained(stale, file, {.after = 5, .ends = true});
  const Checkpoint checkpoint{file};
  CHECK(checkpoint.size_of("pipeline.pooled") == kBatch * 12);
  for (const PipelineKind kind : kPipelineKinds) {
    Run run{{.pipeline = kind, .lookup = {.order_after_dense = true}}};
    CHECK(run.trainer.restore(checkpoint) == 0);
    CHECK(run.trainer.steps() == 5);
    CHECK(run.digest() == digest);
    CHECK(run.trainer.step());
  }
}

TEST_CASE("a loss that is not a finite number is reported with its step, and nothing is saved") {
  SparseNNConfig model = small_model();
  model.dense_optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 1e20F};
  Run stepwise{{}, model};
  std::uint64_t first = 0;
  for (std::uint64_t step = 1; first == 0; ++step) {
    REQUIRE(stepwise.trainer.step());
    if (!std::isfinite(stepwise.trainer.model().loss())) first = step;
  }
  const auto kind = GENERATE(PipelineKind::base, PipelineKind::sparse_dist);
  Run run{{.pipeline = kind}, model};
  run.trainer.resume(40, {0, 0});  // continues after 40 steps of an earlier run
  while (run.trainer.step()) {
  }
  CHECK(run.trainer.diverged_at() == std::nullopt);  // none in the losses checked so far
  run.trainer.check_losses();
  CHECK(run.trainer.diverged_at() == 40 + first);
  CHECK(!std::isfinite(run.trainer.take_progress().loss));
  const test::ScratchFolder scratch;
  const std::filesystem::path file = scratch.write("saved", "an older one");
  CHECK_THROWS_WITH(save_checkpoint(file, {.model = "{}"}, *run.trainer.checkpoint_state()),
                    ContainsSubstring("infinite or not a number"));
  CHECK(std::filesystem::file_size(file) == 12);
}

TEST_CASE("the mean loss has every step, however rarely it is read") {
  SyntheticSettings settings = small_data();
  settings.batch_size = 1;
  settings.examples = 2500;  // more than twice the capacity of the loss log
  TrainingDevice often_device{{}}, seldom_device{{}};
  SyntheticSource often_source{settings, often_device.staging()};
  SyntheticSource seldom_source{settings, seldom_device.staging()};
  Trainer often{often_device, small_model(), often_source};
  Trainer seldom{seldom_device, small_model(), seldom_source};
  double sum = 0;
  for (int part = 0; part < 25; ++part) {
    for (int step = 0; step < 100; ++step) REQUIRE(often.step());
    const TrainingProgress progress = often.take_progress();
    sum += progress.loss * static_cast<double>(progress.examples);
  }
  while (seldom.step()) {
  }
  const TrainingProgress all = seldom.take_progress();
  CHECK(all.examples == 2500);
  CHECK(std::abs(all.loss - sum / 2500) < 1e-9);
}

TEST_CASE("progress is the mean loss over all examples since the last read") {
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

TEST_CASE("evaluation changes no bit and covers every example") {
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

TEST_CASE("evaluation through any pipeline gives the same figures, without a race") {
  std::optional<Evaluation> expected;
  for (const PipelineKind kind : kPipelineKinds) {
    for (const CopyMethod copy : kCopyMethods) {
      Run run{{.pipeline = kind,
               .copy = copy,
               .waits = copy == CopyMethod::precise ? Waits::precise : Waits::coarse,
               .lookup = {.order_after_dense = true},  // the model has position weights
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

TEST_CASE("an id that is not a row of its table ends training with the table and its rows") {
  SparseNNConfig model = small_model();
  model.tables[1].rows = 5;
  Run run{{}, model};
  CHECK_THROWS_WITH(run.train_epochs(1),
                    ContainsSubstring("'b'") && ContainsSubstring("which has 5"));
}

TEST_CASE("the accounting of a run adds up and names its streams") {
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
