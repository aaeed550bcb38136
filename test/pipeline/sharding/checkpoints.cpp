#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/pipeline/collective/run_ranks.hpp"
#include "millrace/pipeline/collective/thread_group.hpp"
#include "millrace/pipeline/model/checkpoint.hpp"
#include "millrace/pipeline/model/optimizer.hpp"
#include "test/pipeline/sharding/sharded_rig.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCheckpointExamples = 8;

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "millrace-sharded-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

/// Ranks that load a checkpoint, train some steps and save a checkpoint.
struct Job {
  SparseNNConfig config;
  ShardingPlan plan;
  std::size_t from = 0, to = 0;  ///< first step and end
  fs::path load, save;           ///< "": none
};

struct Done {
  std::string digest;
  std::vector<std::string> zero;  ///< tensors that the loaded checkpoint lacks
};

Done run(const Job& job) {
  Done done;
  VirtualMachine machine;
  std::vector<std::unique_ptr<OrderedDevice>> devices;
  for (unsigned rank = 0; rank < job.plan.ranks; ++rank) {
    devices.push_back(std::make_unique<OrderedDevice>(
        machine.add_device({.memory_bytes = std::size_t{1} << 28})));
  }
  ThreadRanks ranks{job.plan.ranks, machine};
  run_ranks(machine.executor(), job.plan.ranks, [&](unsigned number) {
    const auto group = ranks.join(number, *devices[number]);
    ShardedRank rank{*devices[number], nullptr, job.config, job.plan, group.get()};
    if (!job.load.empty()) {
      const Checkpoint checkpoint{job.load};
      const auto zero = checkpoint.restore(rank.state(), rank.context());
      if (number == 0) done.zero = zero;
    }
    const std::size_t share = kCheckpointExamples / job.plan.ranks;
    for (std::size_t step = job.from; step < job.to; ++step) {
      rank.step(GlobalBatch{job.config, step, kCheckpointExamples}, number * share, share);
    }
    const auto whole = rank.whole_state();
    if (number == 0) {
      if (!job.save.empty()) save_checkpoint(job.save, {.model = "{}"}, *whole);
      done.digest = state_digest(*whole);
    } else {
      if (!job.save.empty()) whole->send();
      whole->send();
    }
    group->barrier();
  });
  return done;
}

SparseNNConfig with(OptimizerKind tables, OptimizerKind dense) {
  SparseNNConfig config = sharded_config();
  config.table_optimizer = {.kind = tables, .learning_rate = 0.1F};
  config.dense_optimizer = {.kind = dense, .learning_rate = 0.1F};
  return config;
}

/// The digest of one rank that loads the file into a model without sharding.
std::string digest_of_one(const SparseNNConfig& config, const fs::path& file) {
  VirtualMachine machine;
  OrderedDevice device{machine.add_device({.memory_bytes = std::size_t{1} << 28})};
  ShardedRank rank{device, nullptr, config, {}, nullptr};
  const Checkpoint checkpoint{file};
  CHECK(checkpoint.restore(rank.model().state(), rank.context()).empty());
  return state_digest(rank.model().state(), rank.context());
}

}  // namespace

TEST_CASE("a checkpoint of ranks is loaded to the bit with any other plan and number of ranks") {
  const OptimizerKind kind =
      GENERATE(OptimizerKind::sgd, OptimizerKind::adagrad, OptimizerKind::adam);
  const SparseNNConfig config = with(kind, kind);
  const Folder folder;
  const fs::path file = folder.path / "saved", other = folder.path / "other";
  const Done saved = run({.config = config,
                          .plan = plan_named("mixed", config, 4),
                          .to = 3,
                          .load = {},
                          .save = file});
  CHECK(digest_of_one(config, file) == saved.digest);
  for (const char* const name : {"table-wise", "row-wise", "data-parallel"}) {
    for (const unsigned ranks : {1U, 2U, 3U}) {
      INFO(name << ", " << ranks << " ranks");
      const Done loaded = run(
          {.config = config, .plan = plan_named(name, config, ranks), .load = file, .save = other});
      CHECK(loaded.digest == saved.digest);
      CHECK(loaded.zero.empty());
    }
    CHECK(digest_of_one(config, other) == saved.digest);
  }
}

TEST_CASE("ranks that are stopped and resumed end with the bits of an uninterrupted run") {
  const SparseNNConfig config = with(OptimizerKind::rowwise_adagrad, OptimizerKind::adam);
  const ShardingPlan plan = plan_named("mixed", config, 2);
  const Folder folder;
  const fs::path file = folder.path / "saved";
  const Done whole = run({.config = config, .plan = plan, .to = 6, .load = {}, .save = {}});
  static_cast<void>(run({.config = config, .plan = plan, .to = 3, .load = {}, .save = file}));
  const Done rest =
      run({.config = config, .plan = plan, .from = 3, .to = 6, .load = file, .save = {}});
  CHECK(rest.digest == whole.digest);
  CHECK(rest.zero.empty());
}

TEST_CASE("a table that changes its optimizer keeps its weights, and its state starts at zero") {
  const SparseNNConfig config = with(OptimizerKind::rowwise_adagrad, OptimizerKind::adam);
  const Folder folder;
  const fs::path file = folder.path / "saved";
  static_cast<void>(run({.config = config,
                         .plan = plan_named("data-parallel", config, 2),
                         .to = 3,
                         .load = {},
                         .save = file}));
  const Done loaded = run({.config = config,
                           .plan = plan_named("table-wise", config, 2),
                           .load = file,
                           .save = folder.path / "other"});
  CHECK(loaded.zero.size() == config.tables.size() + config.weighted_tables.size());
  CHECK(loaded.zero.front() == "table.users.m");
  const Checkpoint there{folder.path / "other"};  // has the tables' weights and no dense.m
  const Done again = run({.config = config,
                          .plan = plan_named("row-wise", config, 2),
                          .load = folder.path / "other",
                          .save = {}});
  CHECK(again.digest == loaded.digest);
}

TEST_CASE("state of one optimizer is never loaded into another optimizer") {
  const OptimizerKind tables = GENERATE(OptimizerKind::adagrad, OptimizerKind::adam);
  const OptimizerKind dense =
      tables == OptimizerKind::adam ? OptimizerKind::adagrad : OptimizerKind::adam;
  const std::string saved_as = GENERATE("data-parallel", "table-wise");
  const bool to_tables = saved_as == "data-parallel";
  const SparseNNConfig config = with(tables, dense);
  const Folder folder;
  const fs::path file = folder.path / "saved";
  static_cast<void>(run({.config = config,
                         .plan = plan_named(saved_as, config, 2),
                         .to = 1,
                         .load = {},
                         .save = file}));
  const std::string other = to_tables ? "table-wise" : "data-parallel";
  const Done loaded =
      run({.config = config, .plan = plan_named(other, config, 2), .load = file, .save = {}});
  const std::size_t of_table = state_of_parameter(to_tables ? tables : dense);
  REQUIRE(loaded.zero.size() == of_table * (config.tables.size() + config.weighted_tables.size()));
  CHECK(loaded.zero.front() == (to_tables ? "table.users.m" : "table.users.dense.m"));
}

TEST_CASE("a part of a table that a rank sends in several pieces arrives complete") {
  SparseNNConfig config = sharded_config();
  TableConfig& large = config.tables.back();
  large.rows = 700'000;  // 2.7 pieces of 2^20 numbers
  const bool in_host_memory = GENERATE(false, true);
  if (in_host_memory) config.table_cache = TableCache{.load_factor = 0.001};
  VirtualMachine machine;
  OrderedDevice device{machine.add_device({.memory_bytes = std::size_t{1} << 28})};
  ShardedRank alone{device, nullptr, config, {}, nullptr};
  const ShardingPlan plan = plan_named("table-wise", config, 2);
  REQUIRE(plan.tables.back() == TablePlacement{Sharding::table_wise, 1});
  const Done ranks = run({.config = config, .plan = plan, .load = {}, .save = {}});
  CHECK(ranks.digest == state_digest(alone.model().state(), alone.context()));
}

TEST_CASE("ranks refuse a checkpoint of another model and name the tensor") {
  const SparseNNConfig config = with(OptimizerKind::sgd, OptimizerKind::sgd);
  const Folder folder;
  const fs::path file = folder.path / "saved";
  static_cast<void>(run({.config = config,
                         .plan = plan_named("mixed", config, 2),
                         .to = 1,
                         .load = {},
                         .save = file}));
  SparseNNConfig larger = config;
  larger.tables[1].rows += 1;
  CHECK_THROWS_WITH(run({.config = larger,
                         .plan = plan_named("table-wise", larger, 2),
                         .load = file,
                         .save = {}}),
                    Catch::Matchers::ContainsSubstring("'table.items.weights'"));
}

TEST_CASE("a checkpoint that rank 0 cannot write is an error, not a hang") {
  const SparseNNConfig config = with(OptimizerKind::sgd, OptimizerKind::sgd);
  CHECK_THROWS_AS(run({.config = config,
                       .plan = plan_named("mixed", config, 2),
                       .to = 1,
                       .load = {},
                       .save = "/nowhere/at/all"}),
                  CheckpointError);
}

}  // namespace millrace::test
