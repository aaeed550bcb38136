#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/pipeline/collective/run_ranks.hpp"
#include "millrace/pipeline/collective/thread_group.hpp"
#include "millrace/pipeline/data/share_source.hpp"
#include "test/pipeline/sharding/sharded_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/schedules.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kSteps = 20, kExamples = 8;  // examples of all ranks per step
constexpr double kTolerance = 1e-5;

struct Outcome {
  double difference = 0;
  std::vector<std::string> races;
  std::vector<std::vector<float>> dense;  ///< per rank
};

/// Trains the share of one rank, with a loop by hand or through a pipeline.
using TrainRank = std::function<void(ShardedRank& rank, std::size_t first, std::size_t count)>;

void plainly(const SparseNNConfig& config, ShardedRank& rank, std::size_t first,
             std::size_t count) {
  for (std::size_t step = 0; step < kSteps; ++step) {
    rank.step(GlobalBatch{config, step, kExamples}, first, count);
  }
}

/// Trains the ranks as actors of one machine, with the race checker.
Outcome train_agreeing(const SparseNNConfig& config, const ShardingPlan& plan,
                       std::uint64_t schedule, const Trained& alone,
                       const TrainRank& train_rank = nullptr) {
  Outcome outcome;
  VirtualMachine machine{schedule_of(schedule)};
  CheckingObserver checking;
  checking.attach(machine.executor());
  std::vector<std::unique_ptr<OrderedDevice>> devices;
  for (unsigned rank = 0; rank < plan.ranks; ++rank) {
    VirtualDevice& device = machine.add_device({.memory_bytes = std::size_t{1} << 28});
    checking.attach(device);
    devices.push_back(std::make_unique<OrderedDevice>(device));
  }
  ThreadRanks ranks{plan.ranks, machine};
  outcome.dense.resize(plan.ranks);
  run_ranks(machine.executor(), plan.ranks, [&](unsigned number) {
    const auto group = ranks.join(number, *devices[number]);
    ShardedRank rank{*devices[number], &checking, config, plan, group.get()};
    const BatchShare share{number, plan.ranks};
    const std::size_t first = share.begin(kExamples), count = share.end(kExamples) - first;
    if (train_rank) {
      train_rank(rank, first, count);
    } else {
      plainly(config, rank, first, count);
    }
    const Trained trained = rank.trained();
    outcome.difference =
        std::max(outcome.difference, difference(config, plan, alone, number, trained));
    outcome.dense[number] = trained.at("over.0.weight");
    group->barrier();
  });
  for (const RaceChecker::Race& race : checking.races()) outcome.races.push_back(race.message);
  return outcome;
}

}  // namespace

TEST_CASE("several ranks train to the weights of one rank, with any sharding") {
  const SparseNNConfig config = sharded_config();
  const Trained alone = trained_alone(config, kSteps, kExamples);
  const std::string plan_name = GENERATE("table-wise", "row-wise", "data-parallel", "mixed");
  const unsigned ranks = GENERATE(1U, 2U, 4U);
  const ShardingPlan plan = plan_named(plan_name, config, ranks);
  INFO(plan_name << ", " << ranks << " ranks");
  const Outcome outcome = train_agreeing(config, plan, 0, alone);
  CHECK(outcome.difference <= kTolerance);
  CHECK(outcome.races.empty());
  for (const auto& dense : outcome.dense) CHECK(dense == outcome.dense.front());
}

TEST_CASE("ranks with more, fewer and no examples train to the weights of one rank") {
  const SparseNNConfig config = sharded_config();
  const Trained alone = trained_alone(config, kSteps, kExamples);
  const auto [name, ranks] =
      GENERATE(table<std::string, unsigned>({{"mixed", 3}, {"row-wise", 3}, {"table-wise", 9}}));
  INFO(name << ", " << ranks << " ranks of " << kExamples << " examples");
  const Outcome outcome = train_agreeing(config, plan_named(name, config, ranks), 0, alone);
  CHECK(outcome.difference <= kTolerance);
  CHECK(outcome.races.empty());
}

TEST_CASE("position weights of several ranks agree with one rank, also where bags are split") {
  SparseNNConfig config = sharded_config();
  config.position_weights = {{"user", 2}, {"item", 1}, {"day", 2}, {"shop", 3}};
  const std::string name = GENERATE("table-wise", "row-wise", "data-parallel", "mixed");
  const Trained alone = trained_alone(config, kSteps, kExamples);
  CHECK(alone.at("position_weights").front() != 1);
  for (const std::uint64_t schedule : {std::uint64_t{0}, seed()}) {
    for (const unsigned ranks : {2U, 3U, 4U}) {
      INFO(name << ", " << ranks << " ranks, schedule " << schedule);
      const Outcome outcome = train_agreeing(
          config, plan_named(name, config, ranks), schedule, alone,
          [&](ShardedRank& rank, std::size_t first, std::size_t count) {
            rank.run(schedule == 0 ? PipelineKind::sparse_dist : PipelineKind::fused_sparse_dist,
                     {.waits = Waits::precise}, kSteps, kExamples, first, count);
          });
      CHECK(outcome.difference <= kTolerance);
      CHECK(outcome.races == std::vector<std::string>{});
    }
  }
}

TEST_CASE("several ranks train to the weights of one rank under every schedule") {
  const SparseNNConfig config = sharded_config();
  const Trained alone = trained_alone(config, kSteps, kExamples);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const std::uint64_t schedule = seed() * 1000 + i;
    const unsigned ranks = i % 2 == 0 ? 2 : 4;
    INFO("schedule " << schedule << ", " << ranks << " ranks");
    const Outcome outcome =
        train_agreeing(config, plan_named("mixed", config, ranks), schedule, alone);
    CHECK(outcome.difference <= kTolerance);
    CHECK(outcome.races == std::vector<std::string>{});
  }
}

// sharded_cells.cpp compares these pipelines with the loop by hand, pairwise over all options.
TEST_CASE("every pipeline trains several ranks to the weights of one rank") {
  const SparseNNConfig config = sharded_config();
  const Trained alone = trained_alone(config, kSteps, kExamples);
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  const Waits waits = GENERATE(Waits::coarse, Waits::precise);
  const unsigned ranks = waits == Waits::coarse ? 4 : 2;
  const std::uint64_t schedule = seed() * 1000 + ranks;
  INFO(to_string(kind) << ", schedule " << schedule);
  const Outcome outcome =
      train_agreeing(config, plan_named("mixed", config, ranks), schedule, alone,
                     [&](ShardedRank& rank, std::size_t first, std::size_t count) {
                       rank.run(kind, {.waits = waits}, kSteps, kExamples, first, count);
                     });
  CHECK(outcome.difference <= kTolerance);
  CHECK(outcome.races == std::vector<std::string>{});
}

TEST_CASE("every pipeline trains ranks with cached tables to the weights of one rank without") {
  SparseNNConfig config = sharded_config();
  const Trained alone = trained_alone(config, kSteps, kExamples);
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  std::uint64_t cell = 0;
  for (const unsigned ranks : {1U, 2U, 4U}) {
    for (const Waits waits : {Waits::coarse, Waits::precise}) {
      config.table_cache = {cell % 3 == 0 ? 1.0 : 0.1, kCachePolicies[cell % 2]};
      const std::uint64_t schedule = cell % 3 == 1 ? 0 : seed() * 1000 + cell;
      const CopyMethod copy = kCopyMethods[cell % 4];
      ++cell;
      INFO(to_string(kind) << ", " << ranks << " ranks, schedule " << schedule);
      const Outcome outcome = train_agreeing(
          config, plan_named("mixed", config, ranks), schedule, alone,
          [&](ShardedRank& rank, std::size_t first, std::size_t count) {
            rank.run(kind, {.copy = copy, .waits = waits}, kSteps, kExamples, first, count);
          });
      CHECK(outcome.difference <= kTolerance);
      CHECK(outcome.races == std::vector<std::string>{});
    }
  }
}

namespace {

/// The time on the machine's clock after two ranks have done three steps.
Nanoseconds time_of(const std::string& plan_name, bool data) {
  const SparseNNConfig config = sharded_config();
  const ShardingPlan plan = plan_named(plan_name, config, 2);
  VirtualMachine machine;
  std::vector<std::unique_ptr<OrderedDevice>> devices;
  for (unsigned rank = 0; rank < 2; ++rank) {
    devices.push_back(std::make_unique<OrderedDevice>(
        machine.add_device({.memory_bytes = std::size_t{1} << 28, .data = data})));
  }
  ThreadRanks ranks{2, machine, {.cost_only = !data}};
  run_ranks(machine.executor(), 2, [&](unsigned number) {
    const auto group = ranks.join(number, *devices[number]);
    ShardedRank rank{*devices[number], nullptr, config, plan, group.get(), !data};
    for (std::size_t step = 0; step < 3; ++step) {
      rank.step(GlobalBatch{config, step, kExamples}, number * 4, 4);
    }
    static_cast<void>(rank.trained());
  });
  return machine.now();
}

}  // namespace

TEST_CASE("cost-only sharded training takes the same time as training with data") {
  CHECK(time_of("table-wise", false) == time_of("table-wise", true));
  CHECK(time_of("data-parallel", false) == time_of("data-parallel", true));
  CHECK(time_of("mixed", false) > Nanoseconds{0});  // costs assume even splits, so the times differ
}

TEST_CASE("optimizers with state train several ranks as one rank") {
  SparseNNConfig config = sharded_config();
  config.table_optimizer = {.kind = OptimizerKind::rowwise_adagrad, .learning_rate = 0.1F};
  config.dense_optimizer = {.kind = OptimizerKind::adagrad, .learning_rate = 0.1F};
  const Trained alone = trained_alone(config, kSteps, kExamples);
  const Outcome outcome = train_agreeing(config, plan_named("row-wise", config, 2), 0, alone);
  CHECK(outcome.difference <= 1e-4);
}

namespace {

/// Runs a body on each of two ranks. Returns the exception text of each.
std::vector<std::string> thrown_by(
    std::uint64_t schedule,
    const std::function<void(unsigned, std::unique_ptr<ShardedRank>&, ProcessGroup&)>& body) {
  const SparseNNConfig config = sharded_config();
  const ShardingPlan plan = plan_named("mixed", config, 2);
  VirtualMachine machine{schedule_of(schedule)};
  std::vector<std::unique_ptr<OrderedDevice>> devices;
  for (unsigned rank = 0; rank < 2; ++rank) {
    devices.push_back(std::make_unique<OrderedDevice>(
        machine.add_device({.memory_bytes = std::size_t{1} << 28})));
  }
  ThreadRanks ranks{2, machine};
  std::vector<std::string> thrown(2);
  std::vector<std::unique_ptr<Executor::Task>> tasks;
  for (unsigned number = 0; number < 2; ++number) {
    tasks.push_back(machine.executor().spawn("rank " + std::to_string(number), [&, number] {
      try {
        const auto group = ranks.join(number, *devices[number]);
        auto rank =
            std::make_unique<ShardedRank>(*devices[number], nullptr, config, plan, group.get());
        body(number, rank, *group);
      } catch (const std::exception& error) {
        thrown[number] = error.what();
      }
    }));
  }
  for (const auto& task : tasks) task->join();
  return thrown;
}

GlobalBatch batch(std::size_t step) { return {sharded_config(), step, kExamples}; }

}  // namespace

TEST_CASE("ranks with different numbers of batches all name the rank that has no more") {
  const auto schedule = GENERATE(range(0, 4));
  const auto thrown = thrown_by(static_cast<std::uint64_t>(schedule),
                                [](unsigned number, auto& rank, ProcessGroup&) {
                                  const std::size_t batches = number == 0 ? 4 : 3;
                                  for (std::size_t step = 0; step < batches; ++step) {
                                    rank->step(batch(step), number * 4, 4);
                                  }
                                  rank->exchange().exhausted();
                                });
  CHECK(thrown[0] ==
        "rank 1 has no more batches, but rank 0 has: every rank needs the same number");
  CHECK(thrown[1] == thrown[0]);
}

TEST_CASE("pipelines whose ranks have different numbers of batches all get an error") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  const auto schedule = GENERATE(range(0, 3));
  const auto thrown = thrown_by(
      static_cast<std::uint64_t>(schedule), [&](unsigned number, auto& rank, ProcessGroup&) {
        rank->run(kind, {}, number == 0 ? 4 : 3, kExamples, number * 4, 4);
      });
  INFO(to_string(kind));
  CHECK(thrown[0] ==
        "rank 1 has no more batches, but rank 0 has: every rank needs the same number");
  CHECK(thrown[1] == thrown[0]);
}

TEST_CASE("ranks with equal numbers of batches end together") {
  const auto thrown = thrown_by(0, [](unsigned number, auto& rank, ProcessGroup&) {
    for (std::size_t step = 0; step < 3; ++step) rank->step(batch(step), number * 4, 4);
    rank->exchange().exhausted();
  });
  CHECK(thrown == std::vector<std::string>(2));
}

TEST_CASE("a rank that throws between start and receipt of features is named to the other rank") {
  const auto schedule = GENERATE(range(0, 4));
  const auto thrown = thrown_by(static_cast<std::uint64_t>(schedule),
                                [](unsigned number, auto& rank, ProcessGroup&) {
                                  rank->step(batch(0), number * 4, 4);
                                  if (number == 1) {
                                    const auto flight = rank->start(batch(1), 4, 4);
                                    throw std::runtime_error{"out of luck"};
                                  }
                                  rank->step(batch(1), 0, 4);
                                  static_cast<void>(rank->trained());
                                  rank->step(batch(2), 0, 4);
                                });
  CHECK_THAT(thrown[0], Catch::Matchers::ContainsSubstring("rank 1 failed"));
  CHECK(thrown[1] == "out of luck");
}

TEST_CASE("a rank that destroys an exchange in flight is an error for the other rank, not a hang") {
  const auto schedule = GENERATE(range(0, 4));
  const auto thrown = thrown_by(static_cast<std::uint64_t>(schedule),
                                [](unsigned number, auto& rank, ProcessGroup& group) {
                                  auto flight = rank->start(batch(0), number * 4, 4);
                                  if (number == 1) {
                                    flight->receive(Waits::precise);
                                    flight.reset();
                                    rank.reset();
                                    return;
                                  }
                                  flight->receive(Waits::precise);
                                  rank->step(batch(1), 0, 4);
                                  group.barrier();
                                });
  CHECK_THAT(thrown[0], Catch::Matchers::ContainsSubstring("rank 1 has left the group"));
  CHECK(thrown[1].empty());
}

}  // namespace millrace::test
