#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "millrace/device/cuda_device.hpp"
#include "millrace/pipeline/collective/nccl_group.hpp"
#include "test/support/catch.hpp"
#include "test/tools/program.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

// Batches that ranks cannot share evenly. The last batch has 41 examples.
std::vector<std::string> with_data(const std::vector<std::string>& more) {
  return joined({"train", "--data", "synthetic", "--examples", "1001", "--batch-size", "96"}, more);
}

nlohmann::json train_on_ranks(const std::vector<std::string>& more) {
  return document_of(with_data(more), {"--json", "-"});
}

std::string ranks_refusal(const std::vector<std::string>& more) {
  const ProgramRun run = run_program(with_data(more));
  CHECK(run.exit_code == 2);
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') <= 3);
  CHECK_THAT(run.err, ContainsSubstring("millrace train: "));
  return run.err;
}

constexpr const char* kOneOptimizer = R"({"schema": "millrace.model/1", "width": 8,
  "dense_arch": [8], "over_arch": [8],
  "table_optimizer": {"kind": "adagrad", "learning_rate": 0.05},
  "dense_optimizer": {"kind": "adagrad", "learning_rate": 0.05}})";

constexpr const char* kFewRows = R"({"schema": "millrace.model/1", "width": 8,
  "tables": {"s0": {"rows": 900}}, "dense_arch": [8], "over_arch": [8]})";

constexpr const char* kPositions = R"({"schema": "millrace.model/1", "width": 8, "pooling": "mean",
  "position_weights": {"s0": 2}, "dense_arch": [8], "over_arch": [8]})";

void check_same_curve(const nlohmann::json& run, const nlohmann::json& alone) {
  CHECK(run["steps"] == alone["steps"]);
  CHECK(run["parameters"] == alone["parameters"]);
  for (std::size_t epoch = 0; epoch < alone["epochs"].size(); ++epoch) {
    const auto &one = run["epochs"][epoch], &other = alone["epochs"][epoch];
    CHECK(one["examples"] == other["examples"]);
    CHECK(one["test"]["examples"] == other["test"]["examples"]);
    CHECK(std::abs(one["loss"].get<double>() - other["loss"].get<double>()) < 1e-5);
    CHECK(std::abs(one["test"]["loss"].get<double>() - other["test"]["loss"].get<double>()) < 1e-5);
    CHECK(std::abs(one["test"]["auc"].get<double>() - other["test"]["auc"].get<double>()) < 1e-3);
  }
}

}  // namespace

TEST_CASE("train: several ranks learn as one rank, epoch by epoch, with any sharding") {
  const ScratchFolder scratch;
  const std::string model = scratch.write("model.json", kOneOptimizer).string();
  const auto alone = train_on_ranks({"--epochs", "2", "--model", model});
  for (const auto& [ranks, sharding] : std::vector<std::pair<std::string, std::string>>{
           {"1", "row-wise"}, {"2", "auto"}, {"3", "data-parallel"}, {"4", "row-wise"}}) {
    INFO(ranks << " ranks, " << sharding);
    const auto run = train_on_ranks({"--epochs", "2", "--model", model, "--ranks", ranks,
                                     "--sharding", sharding, "--check-races"});
    check_same_curve(run, alone);
    CHECK(run["ranks"]["count"] == std::stoi(ranks));
    CHECK(run["ranks"]["group"] == "threads");
    CHECK(run["ranks"]["memory"].size() == std::stoul(ranks));
    CHECK(run["ranks"]["memory"][0]["peak_reserved_bytes"] > 0);
    CHECK(run["memory"]["races"].empty());
  }
}

TEST_CASE("train: position weights and means of several ranks agree with one rank") {
  const ScratchFolder scratch;
  const std::string model = scratch.write("model.json", kPositions).string();
  const auto alone = train_on_ranks({"--epochs", "2", "--model", model});
  for (const char* const sharding : {"table-wise", "row-wise"}) {
    INFO(sharding);
    const auto run = train_on_ranks({"--epochs", "2", "--model", model, "--ranks", "3",
                                     "--sharding", sharding, "--pipeline", "sparse-dist"});
    check_same_curve(run, alone);
  }
}

TEST_CASE("train: auto places each table where its own optimizer updates it") {
  const auto sharding = [](const nlohmann::json& run) { return run["ranks"]["sharding"]["s0"]; };
  CHECK(sharding(train_on_ranks({"--steps", "1", "--ranks", "2"}))["sharding"] == "table-wise");
  const ScratchFolder scratch;
  const std::string model = scratch.write("model.json", kOneOptimizer).string();
  CHECK(sharding(train_on_ranks({"--steps", "1", "--ranks", "2", "--model", model}))["sharding"] ==
        "data-parallel");
  const std::string plan =
      scratch.write("plan.json", R"({"s0": {"sharding": "table-wise", "rank": 1}})").string();
  const auto planned = train_on_ranks({"--steps", "1", "--ranks", "2", "--sharding", plan});
  CHECK(sharding(planned) == nlohmann::json{{"sharding", "table-wise"}, {"rank", 1}});
}

TEST_CASE("train: every pipeline and copy strategy ends with the same weights on two ranks") {
  const auto digest = train_on_ranks({"--epochs", "2", "--ranks", "2"})["weights_digest"];
  for (const char* const pipeline : {"sparse-dist", "sparse-dist-lite", "fused-sparse-dist"}) {
    const auto run = train_on_ranks({"--epochs", "2", "--ranks", "2", "--pipeline", pipeline,
                                     "--copy", "precise", "--waits", "precise"});
    CHECK(run["weights_digest"] == digest);
  }
}

TEST_CASE("train: a checkpoint of four ranks is loaded to the bit by one, two and three") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "run").string(), other = (scratch / "other").string();
  const auto saved = train_on_ranks(
      {"--epochs", "2", "--steps", "15", "--ranks", "4", "--sharding", "row-wise", "--save", file});
  CHECK(saved["saved"] == file);
  const auto digest = [](const nlohmann::json& run) { return run["weights_digest"]; };
  CHECK(digest(train_on_ranks({"--load", file, "--eval"})) == digest(saved));
  CHECK(digest(train_on_ranks({"--load", file, "--eval", "--ranks", "2", "--sharding",
                               "table-wise"})) == digest(saved));
  CHECK(digest(train_on_ranks(
            {"--load", file, "--steps", "15", "--ranks", "3", "--save", other})) == digest(saved));
  CHECK(read_file(other) == read_file(file));
}

TEST_CASE("train: ranks that are stopped and resumed end with an uninterrupted run's bits") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "run").string();
  const std::vector<std::string> how{"--epochs", "3", "--ranks", "2", "--pipeline", "sparse-dist"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), how.begin(), how.end());
    return train_on_ranks(more);
  };
  const auto whole = run({"--save", file, "--save-every", "4"});
  for (const char* const steps : {"5", "11"}) {  // within an epoch of 11 steps, at its end
    static_cast<void>(run({"--steps", steps, "--save", file}));
    const auto rest = run({"--load", file});
    CHECK(rest["weights_digest"] == whole["weights_digest"]);
    CHECK(rest["test"]["auc"] == whole["test"]["auc"]);
  }
}

TEST_CASE("train: ranks with semi-sync that are resumed end with an uninterrupted run's bits") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "run").string();
  const std::vector<std::string> how{"--epochs",      "2", "--pipeline",       "semi-sync",
                                     "--start-batch", "4", "--stash-gradients"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), how.begin(), how.end());
    return train_on_ranks(more);
  };
  for (const std::string sharding : {"row-wise", "data-parallel"}) {
    const std::vector<std::string> two{"--ranks", "2", "--sharding", sharding};
    const auto on_two = [&](std::vector<std::string> more) {
      more.insert(more.end(), two.begin(), two.end());
      return run(more);
    };
    const auto whole = on_two({"--save", file, "--save-every", "3"});
    CHECK(on_two({})["weights_digest"] == whole["weights_digest"]);
    for (const char* const steps : {"5", "13"}) {
      static_cast<void>(on_two({"--steps", steps, "--save", file}));
      const auto rest = on_two({"--load", file});
      CHECK(rest["weights_digest"] == whole["weights_digest"]);
    }
    if (sharding == "data-parallel") continue;  // in other shardings another optimizer updates them
    const auto elsewhere = run({"--load", file, "--ranks", "3", "--sharding", "table-wise"});
    CHECK(std::abs(elsewhere["test"]["auc"].get<double>() - whole["test"]["auc"].get<double>()) <
          0.01);
  }
}

TEST_CASE("train: data-parallel tables keep their weights in another plan, with a message") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "run").string();
  static_cast<void>(train_on_ranks(
      {"--steps", "5", "--ranks", "2", "--sharding", "data-parallel", "--save", file}));
  const ProgramRun run = run_program(with_data({"--load", file, "--steps", "6"}));
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, ContainsSubstring("reset  optimizer state of tables"));
}

TEST_CASE("train: only rank 0 prints the plan, the epochs and the memory of each rank") {
  const ProgramRun run =
      run_program(with_data({"--epochs", "2", "--ranks", "4", "--sharding", "row-wise"}));
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
  CHECK_THAT(run.out, ContainsSubstring("ranks  4 as threads; tables: 7 row-wise") &&
                          ContainsSubstring("rank 0 ") && ContainsSubstring("rank 3 "));
  const auto first = run.out.find("\n    1 ");
  CHECK(first != std::string::npos);
  CHECK(run.out.find("\n    1 ", first + 1) == std::string::npos);
}

TEST_CASE("train: a timeline of two ranks has their exchanges") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "timeline").string();
  const ProgramRun run = run_program(
      with_data({"--steps", "3", "--ranks", "2", "--pipeline", "sparse-dist", "--timeline", file}));
  CHECK(run.exit_code == 0);
  const auto document = nlohmann::json::parse(read_file(file));
  CHECK(document.dump().find("all-to-all") != std::string::npos);
  CHECK(document["otherData"]["ranks"] == "2");
}

TEST_CASE("train: Ctrl-C ends all ranks at one step, with a checkpoint") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "run").string();
  const std::string said =
      interrupted(with_data({"--epochs", "100000", "--ranks", "2", "--save", file}), scratch);
  const auto tested = train_on_ranks({"--load", file, "--eval"});
  CHECK_THAT(said, ContainsSubstring(tested["weights_digest"].get<std::string>()));
}

TEST_CASE("train: invalid ranks, groups and shardings are refused") {
  CHECK_THAT(ranks_refusal({"--ranks", "0"}), ContainsSubstring("--ranks"));
  CHECK_THAT(ranks_refusal({"--group", "mip"}), ContainsSubstring("did you mean mpi?"));
  CHECK_THAT(ranks_refusal({"--ranks", "2", "--sharding", "row-wse"}),
             ContainsSubstring("did you mean row-wise?"));
  CHECK_THAT(ranks_refusal({"--ranks", "2", "--device", "cuda:0"}),
             ContainsSubstring("ranks of one process need virtual devices"));
  CHECK_THAT(ranks_refusal({"--ranks", "2", "--rendezvous", "file"}),
             ContainsSubstring("--group nccl"));
  const ScratchFolder scratch;
  const std::string plan =
      scratch.write("plan.json", R"({"s0": {"sharding": "table-wise", "rank": 2}})").string();
  CHECK_THAT(ranks_refusal({"--ranks", "2", "--sharding", plan}),
             ContainsSubstring("'s0.rank' is 2") && ContainsSubstring("--sharding"));
}

TEST_CASE("train: an error of one rank is reported once, with the rank's batch and example") {
  const ScratchFolder scratch;
  const std::string model = scratch.write("model.json", kFewRows).string();
  CHECK_THAT(ranks_refusal({"--ranks", "2", "--model", model}),
             ContainsSubstring("of feature 's0' is not a row") && ContainsSubstring(" of rank "));
}

TEST_CASE("train: ranks report a damaged checkpoint or another batch size once") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "run").string();
  static_cast<void>(train_on_ranks({"--steps", "2", "--ranks", "2", "--save", file}));
  const std::string good = read_file(file);
  const std::string bad = scratch.write("bad", good.substr(0, good.size() - 9)).string();
  CHECK_THAT(ranks_refusal({"--ranks", "2", "--load", bad}), ContainsSubstring("cut short"));
  CHECK_THAT(ranks_refusal({"--ranks", "2", "--load", file, "--batch-size", "48"}),
             ContainsSubstring("batch-size 96, not 48"));
  CHECK_THAT(ranks_refusal({"--ranks", "2", "--save", "/nowhere/at/all"}),
             ContainsSubstring("/nowhere/at/all"));
}

TEST_CASE("train: one of several mpirun processes without --group mpi is refused") {
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  const std::string refused = ranks_refusal({"--steps", "1"});
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  CHECK_THAT(refused, ContainsSubstring("mpirun has started 2 processes") &&
                          ContainsSubstring("--group mpi"));
}

TEST_CASE("train: NCCL runs with torchrun's environment, or a message says what is missing") {
  ::setenv("WORLD_SIZE", "1", 1);
  ::setenv("RANK", "0", 1);
  const ScratchFolder scratch;
  const std::vector<std::string> arguments =
      with_data({"--steps", "3", "--group", "nccl", "--rendezvous", (scratch / "meet").string()});
  const ProgramRun run = run_program(arguments);
  ::unsetenv("WORLD_SIZE");
  ::unsetenv("RANK");
  INFO(run.err);
  if (nccl_support().loaded && cuda_device_count().count > 0) {
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.out, ContainsSubstring("ranks  1 as processes of nccl"));
    return;
  }
  CHECK(run.exit_code == 2);
  if (nccl_support().loaded) {
    CHECK_THAT(run.err, ContainsSubstring("cuda:0 does not exist"));
    return;
  }
  CHECK_THAT(run.err, ContainsSubstring("NCCL cannot be loaded (") &&
                          ContainsSubstring("\n  right: install libnccl2"));
  CHECK(run.err.find("NCCL cannot be loaded") == run.err.rfind("NCCL cannot be loaded"));
}
