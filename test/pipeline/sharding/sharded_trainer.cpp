#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/pipeline/data/adult.hpp"
#include "millrace/pipeline/data/share_source.hpp"
#include "millrace/pipeline/data/synthetic_source.hpp"
#include "millrace/pipeline/model/checkpoint.hpp"
#include "millrace/pipeline/model/model_description.hpp"
#include "millrace/pipeline/schedule/trainer.hpp"
#include "millrace/pipeline/schedule/training_ranks.hpp"
#include "test/support/catch.hpp"
#include "test/support/data.hpp"
#include "test/support/scratch_folder.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kBatch = 256;

const AdultData& adult(const std::filesystem::path& folder) {
  static const AdultData data = read_adult(folder);
  return data;
}

std::unique_ptr<EpochSource> share_of(std::unique_ptr<EpochSource> source,
                                      const ProcessGroup* group, const PinnedStaging& staging) {
  if (group == nullptr) return source;
  return std::make_unique<ShareSource>(std::move(source), BatchShare{group->rank(), group->size()},
                                       staging);
}

/// The source to train on and the source to test on.
struct Sources {
  std::unique_ptr<EpochSource> train, test;
};
using MakeSources = std::function<Sources(const PinnedStaging& staging)>;

Sources adult_sources(const AdultData& data, const PinnedStaging& staging) {
  return {std::make_unique<TableSource>(data.train,
                                        TableSettings{.batch_size = kBatch, .shuffle = 1}, staging),
          std::make_unique<TableSource>(data.test, TableSettings{.batch_size = kBatch}, staging)};
}

struct Result {
  TrainingProgress trained;
  Evaluation tested;
  std::vector<std::string> races;
};

/// Trains for an epoch, then evaluates. With `group` null one rank has all tables and examples.
Result train(TrainingDevice& device, ProcessGroup* group, const SparseNNConfig& config,
             const ShardingPlan& plan, const MakeSources& make) {
  Sources sources = make(device.staging());
  const auto source = share_of(std::move(sources.train), group, device.staging());
  const auto test = share_of(std::move(sources.test), group, device.staging());
  Trainer trainer{device, config, *source,
                  group == nullptr ? std::optional<TrainingRank>{}
                                   : std::optional<TrainingRank>{{*group, plan}}};
  while (trainer.step()) {
  }
  Result result;
  result.trained = trainer.take_progress();
  result.tested = trainer.evaluate(*test);
  return result;
}

Result train_alone(const TrainingOptions& options, const SparseNNConfig& config,
                   const MakeSources& make) {
  TrainingDevice device{options};
  return train(device, nullptr, config, {}, make);
}

/// The result of rank 0. Checks that all ranks have the same result.
Result train_together(const TrainingOptions& options, const SparseNNConfig& config,
                      const ShardingPlan& plan, const MakeSources& make) {
  std::vector<Result> results(plan.ranks);
  run_training_ranks(options, plan.ranks, [&](TrainingDevice& device, ProcessGroup& group) {
    Result& result = results[group.rank()] = train(device, &group, config, plan, make);
    group.barrier();
    result.races = device.accounting().races.value_or(std::vector<std::string>{});
  });
  for (const Result& result : results) {
    CHECK(result.tested.auc == results.front().tested.auc);
    CHECK(result.trained.loss == results.front().trained.loss);
  }
  return results.front();
}

/// Tables take turns: table-wise, row-wise if possible, data-parallel.
ShardingPlan mixed(const SparseNNConfig& config, unsigned ranks) {
  ShardingPlan plan = plan_alike(config, ranks, Sharding::row_wise);
  const ShardingPlan whole = plan_alike(config, ranks, Sharding::table_wise);
  for (std::size_t i = 0; i < plan.tables.size(); ++i) {
    if (i % 3 == 0) plan.tables[i] = whole.tables[i];
    if (i % 3 == 2) plan.tables[i] = {Sharding::data_parallel, 0};
  }
  return plan;
}

/// Small sources. In the last batch only one of two ranks has an example.
Sources drawn_sources(const PinnedStaging& staging) {
  SyntheticSettings settings{
      .batch_size = 24,
      .examples = 8 * 24 + 1,
      .dense_features = 2,
      .sparse = {{.feature = {"a", "a", 40}, .pooling = 2, .fewest = 0, .skew = 1},
                 {.feature = {"b", "b", 60}, .pooling = 1},
                 {.feature = {"c", "c", 20}, .pooling = 1}},
      .weighted = {{.feature = {"w", "w", 30}, .pooling = 2}},
      .seed = seed()};
  Sources sources;
  sources.train = std::make_unique<SyntheticSource>(settings, staging);
  settings.examples = 60;
  sources.test = std::make_unique<SyntheticSource>(settings, staging);
  return sources;
}

SparseNNConfig drawn_model() {
  return {.dense_features = 2,
          .tables = {{"a", 40, 4, Pooling::sum, {"a"}},
                     {"b", 60, 4, Pooling::sum, {"b"}},
                     {"c", 20, 4, Pooling::mean, {"c"}}},
          .weighted_tables = {{"w", 30, 4, Pooling::mean, {"w"}}},
          .dense_arch = {8, 4},
          .over_arch = {8},
          .table_optimizer = {.kind = OptimizerKind::adagrad, .learning_rate = 0.05F},
          .dense_optimizer = {.kind = OptimizerKind::adagrad, .learning_rate = 0.05F},
          .seed = 3};
}

ShardingPlan alike(const SparseNNConfig& config, const std::string& name, unsigned ranks) {
  return name == "mixed" ? mixed(config, ranks) : plan_alike(config, ranks, parse_sharding(name));
}

/// Whether a run begins with the file, and where it stops and saves the file.
struct Stretch {
  bool loads = false;
  std::uint64_t stop_at = 0;  ///< 0: at the end of the epoch, without saving
};

/// The digest after an epoch or a part of it, on two ranks with stale steps.
std::string trained_stale(const std::filesystem::path& file, const Stretch& of) {
  SparseNNConfig config = drawn_model();
  config.position_weights = {{"a", 2}};  // lookups read them
  const ShardingPlan plan = plan_alike(config, 2, Sharding::data_parallel);
  const TrainingOptions stale{.pipeline = PipelineKind::semi_sync,
                              .stale = {.start_batch = 3, .stash_gradients = true}};
  std::string digest;
  run_training_ranks(stale, 2, [&](TrainingDevice& device, ProcessGroup& group) {
    const auto source = share_of(drawn_sources(device.staging()).train, &group, device.staging());
    Trainer trainer{device, config, *source, TrainingRank{group, plan}};
    const bool first = group.rank() == 0;
    if (of.loads) static_cast<void>(trainer.restore(Checkpoint{file}));
    if (of.stop_at > 0) trainer.stop_at(of.stop_at);
    while (trainer.step()) {
    }
    if (of.stop_at > 0) {
      trainer.drain();
      const auto state = trainer.checkpoint_state();
      const CheckpointHeader header{
          .model = "{}", .steps = trainer.steps(), .position = {0, trainer.steps()}};
      if (first) save_checkpoint(file, header, *state);
      if (!first) state->send();
    }
    const auto whole = trainer.whole_state();
    if (first) digest = state_digest(*whole);
    if (!first) whole->send();
    group.barrier();
  });
  return digest;
}

struct AdultCase {
  Optimizer tables, dense;
  std::string of_two, of_four;  ///< plans
};

const std::vector<AdultCase>& adult_cases() {
  static const Optimizer rowwise{.kind = OptimizerKind::rowwise_adagrad, .learning_rate = 0.02F};
  static const Optimizer adagrad{.kind = OptimizerKind::adagrad, .learning_rate = 0.02F};
  static const Optimizer adam{.kind = OptimizerKind::adam, .learning_rate = 0.002F};
  static const std::vector<AdultCase> all{{rowwise, adam, "row-wise", "table-wise"},
                                          {adagrad, adagrad, "data-parallel", "mixed"},
                                          {adam, adam, "table-wise", "row-wise"}};
  return all;
}

}  // namespace

TEST_CASE("on UCI Adult two and four ranks reach the AUC of one rank, with each optimizer") {
  const auto folder = data_folder();
  if (!folder || !std::filesystem::exists(*folder / "adult" / "adult.data")) {
    SKIP("UCI Adult is not there: set MILLRACE_DATA to the folder that has adult/adult.data");
  }
  const AdultData& data = adult(*folder / "adult");
  const MakeSources sources = [&](const PinnedStaging& staging) {
    return adult_sources(data, staging);
  };
  const AdultCase of = GENERATE(from_range(adult_cases()));
  ModelDescription model = ModelDescription::named("adult");
  model.table_optimizer = of.tables;
  model.dense_optimizer = of.dense;
  const SparseNNConfig config = model.config(data.train->schema, 1);

  const Result alone = train_alone({}, config, sources);
  CHECK(alone.tested.auc > 0.9);
  for (const unsigned ranks : {2U, 4U}) {
    const std::string& name = ranks == 2 ? of.of_two : of.of_four;
    const Result together = train_together({.pipeline = PipelineKind::sparse_dist}, config,
                                           alike(config, name, ranks), sources);
    INFO(to_string(of.tables.kind) << ", " << name << ", " << ranks << " ranks: AUC "
                                   << together.tested.auc << ", of one " << alone.tested.auc);
    CHECK(std::abs(together.tested.auc - alone.tested.auc) <= 0.002);
    CHECK(std::abs(together.tested.loss - alone.tested.loss) <= 0.002);
    CHECK(together.tested.examples == data.test->size());
    CHECK(together.trained.examples == data.train->size());
  }
}

TEST_CASE("trainers of several ranks learn and predict as one trainer, without a race") {
  const SparseNNConfig config = drawn_model();
  const Result alone = train_alone({}, config, drawn_sources);
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  const auto [name, ranks] =
      GENERATE(table<std::string, unsigned>({{"mixed", 2}, {"row-wise", 3}, {"data-parallel", 2}}));
  INFO(to_string(kind) << ", " << name << ", " << ranks << " ranks");
  const Result together = train_together({.pipeline = kind,
                                          .copy = CopyMethod::precise,
                                          .waits = Waits::precise,
                                          .lookup = {.order_after_dense = true},
                                          .check_races = true},
                                         config, alike(config, name, ranks), drawn_sources);
  CHECK(together.races == std::vector<std::string>{});
  CHECK(together.trained.examples == alone.trained.examples);
  CHECK(together.tested.examples == alone.tested.examples);
  CHECK(std::abs(together.trained.loss - alone.trained.loss) < 1e-4);
  CHECK(std::abs(together.tested.loss - alone.tested.loss) < 1e-4);
}

TEST_CASE("ranks that resume with stale steps end with the bits of an uninterrupted run") {
  const ScratchFolder scratch;
  const std::filesystem::path file = scratch / "saved";
  const std::string whole = trained_stale(file, {});
  for (const std::uint64_t steps : {2U, 3U, 4U, 6U}) {  // before the stale steps, and among them
    INFO("saved after " << steps);
    static_cast<void>(trained_stale(file, {.stop_at = steps}));
    CHECK(trained_stale(file, {.loads = true}) == whole);
  }
}

}  // namespace millrace::test
