#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "footprint/raced.hpp"
#include "pipelines/raced.hpp"
#include "test/support/catch.hpp"
#include "test/support/data.hpp"
#include "test/support/gzip.hpp"
#include "test/support/seed.hpp"
#include "test/tools/program.hpp"
#include "test/tools/terminal.hpp"
#include "train/exit_code.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The result of a training, as JSON.
nlohmann::json train_run(const std::vector<std::string>& arguments) {
  return document_of(joined({"train"}, arguments), {"--json", "-"});
}

std::vector<std::string> synthetic(const std::vector<std::string>& more) {
  return joined({"--data", "synthetic", "--examples", "1000", "--batch-size", "96"}, more);
}

/// Lines of Criteo's format. Their 26 categories have 10 to 1000 values, some are empty, and some
/// lines are malformed.
std::string criteo_lines(unsigned count) {
  std::mt19937 random{static_cast<unsigned>(seed())};
  std::string text;
  for (unsigned i = 0; i < count; ++i) {
    text += random() % 3 == 0 ? "1" : "0";
    for (int c = 0; c < 13; ++c) text += fmt::format("\t{}", random() % 50);
    for (int c = 0; c < 26; ++c) {
      const unsigned kinds = c % 3 == 0 ? 10 : c % 3 == 1 ? 100 : 1000;
      text += random() % 10 == 0 ? "\t" : fmt::format("\t{:08x}", random() % kinds);
    }
    text += i % 900 == 7 ? "\tand more\n" : "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("train: tables learn the synthetic labels, frozen tables learn less") {
  const auto learnt = train_run({"--data", "synthetic", "--epochs", "4"});
  CHECK(learnt["test"]["auc"] > 0.8);
  CHECK(learnt["epochs"].size() == 4);
  CHECK(learnt["epochs"][3]["loss"] < learnt["epochs"][0]["loss"]);
  const auto frozen = train_run({"--data", "synthetic", "--epochs", "4", "--freeze-tables"});
  CHECK(frozen["test"]["auc"] < learnt["test"]["auc"].get<double>() - 0.05);
}

TEST_CASE(
    "train: on UCI Adult three epochs give an AUC of 0.920, with frozen tables at most 0.910") {
  const auto data = data_folder();
  if (!data || !std::filesystem::exists(*data / "adult" / "adult.data")) {
    SKIP("UCI Adult is not there: set MILLRACE_DATA to the folder that has adult/adult.data");
  }
  const std::string where = "adult:" + (*data / "adult").string();
  for (const char* const seed : {"1", "2", "3"}) {
    const auto run = train_run({"--data", where, "--seed", seed});
    INFO(seed << ": " << run["test"]["auc"]);
    CHECK(run["test"]["auc"] >= 0.920);
    CHECK(run["test"]["examples"] == 16281);
  }
  const auto frozen = train_run({"--data", where, "--freeze-tables"});
  INFO(frozen["test"]["auc"]);
  CHECK(frozen["test"]["auc"] <= 0.910);
}

TEST_CASE("train: pipelines, copy strategies and allocators end with the same weights") {
  const auto digest = train_run(synthetic({"--epochs", "2"}))["weights_digest"];
  for (const char* const pipeline : {"base", "sparse-dist", "sparse-dist-lite"}) {
    for (const char* const copy : {"in-place", "ring"}) {
      const auto run = train_run(synthetic({"--epochs", "2", "--pipeline", pipeline, "--copy", copy,
                                            "--waits", "precise", "--allocator", "torch"}));
      CHECK(run["weights_digest"] == digest);
    }
  }
  CHECK(train_run(synthetic({"--epochs", "2", "--seed", "2"}))["weights_digest"] != digest);
}

TEST_CASE("train: cached tables end with the weights of plain tables, also across a resume") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "run").string();
  const auto plain = train_run(synthetic({"--epochs", "2"}));
  CHECK(plain["cache"].is_null());
  const auto ahead = train_run(synthetic({"--epochs", "2", "--pipeline", "prefetch-sparse-dist"}));
  CHECK(ahead["weights_digest"] == plain["weights_digest"]);
  CHECK(ahead["options"]["cache"]["load_factor"] == 0.2);
  CHECK(ahead["cache"]["hits"] > 0);
  CHECK(ahead["cache"]["write_backs"] > 0);
  for (const char* const policy : {"lru", "lfu"}) {
    const auto small =
        train_run(synthetic({"--epochs", "2", "--steps", "7", "--save", file, "--cache-load-factor",
                             "0.05", "--cache-policy", policy}));
    CHECK(small["steps"] == 7);
    const auto rest = train_run(synthetic({"--epochs", "2", "--load", file}));
    CHECK(rest["weights_digest"] == plain["weights_digest"]);
    CHECK(rest["test"]["auc"] == plain["test"]["auc"]);
  }
}

TEST_CASE("train: a resumed run ends with the bits of an uninterrupted run") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "run").string();
  for (const char* const pipeline : {"base", "sparse-dist"}) {
    const auto whole = train_run(synthetic({"--epochs", "3", "--pipeline", pipeline}));
    for (const char* const steps : {"5", "11", "17"}) {  // within an epoch of 11 steps, at its end
      const auto part = train_run(
          synthetic({"--epochs", "3", "--pipeline", pipeline, "--steps", steps, "--save", file}));
      CHECK(part["steps"] == std::stoi(steps));
      const auto rest =
          train_run(synthetic({"--epochs", "3", "--pipeline", pipeline, "--load", file}));
      CHECK(rest["weights_digest"] == whole["weights_digest"]);
      CHECK(rest["steps"] == whole["steps"]);
      CHECK(rest["test"]["auc"] == whole["test"]["auc"]);
    }
    const auto often = train_run(
        synthetic({"--epochs", "3", "--pipeline", pipeline, "--save", file, "--save-every", "4"}));
    CHECK(often["weights_digest"] == whole["weights_digest"]);
  }
}

TEST_CASE("train: a resumed semi-sync run ends with the bits of an uninterrupted run") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "run").string();
  for (const bool stashes : {false, true}) {
    const auto run = [&](std::vector<std::string> more) {
      more.insert(more.end(), {"--epochs", "3", "--pipeline", "semi-sync", "--start-batch", "7"});
      if (stashes) more.emplace_back("--stash-gradients");
      return train_run(synthetic(more));
    };
    const auto whole = run({});
    CHECK(whole["stale_steps"] == 33 - 7);
    for (const char* const steps : {"5", "7", "8", "11", "17"}) {
      static_cast<void>(run({"--steps", steps, "--save", file}));
      const auto rest = run({"--load", file});
      CHECK(rest["weights_digest"] == whole["weights_digest"]);
      CHECK(rest["test"]["auc"] == whole["test"]["auc"]);
    }
    const auto often = run({"--save", file, "--save-every", "4"});
    CHECK(often["weights_digest"] == whole["weights_digest"]);
  }
}

TEST_CASE("train: semi-sync that ends before its first stale step is base, and says so") {
  const auto base = train_run(synthetic({"--epochs", "1"}));
  CHECK(base["stale_steps"].is_null());
  const auto semi_sync = train_run(synthetic({"--epochs", "1", "--pipeline", "semi-sync"}));
  CHECK(semi_sync["weights_digest"] == base["weights_digest"]);
  CHECK(semi_sync["stale_steps"] == 0);
  std::vector<std::string> arguments =
      synthetic({"--epochs", "1", "--pipeline", "semi-sync", "--start-batch", "11"});
  arguments.insert(arguments.begin(), "train");
  CHECK_THAT(run_program(arguments).out,
             ContainsSubstring("stale   none: these steps are those of base; --start-batch is 11"));
  arguments.back() = "10";
  CHECK_THAT(run_program(arguments).out,
             ContainsSubstring("stale   1 steps, those from --start-batch 10 on"));
}

TEST_CASE("train: pageable memory that the heap reuses between rank threads is not a race") {
  const auto data = data_folder();
  if (!data || !std::filesystem::exists(*data / "adult" / "adult.data")) {
    SKIP("UCI Adult is not there: set MILLRACE_DATA to the folder that has adult/adult.data");
  }
  const ScratchFolder scratch;
  for (const auto& [file, lines] : {std::pair{"adult.data", 37}, std::pair{"adult.test", 12}}) {
    std::istringstream all{read_file(*data / "adult" / file)};
    std::string some, line;
    for (int i = 0; i < lines && std::getline(all, line); ++i) some += line + '\n';
    static_cast<void>(scratch.write(file, some));
  }
  const auto run = train_run({"--data", "adult:" + scratch.path().string(), "--batch-size", "5",
                              "--epochs", "3", "--pipeline", "prefetch-sparse-dist", "--ranks", "2",
                              "--sharding", "table-wise", "--waits", "precise", "--check-races"});
  CHECK(run["memory"]["races"] == nlohmann::json::array());
}

TEST_CASE("train, footprint, pipelines: a run in which a race was found does not end with 0") {
  using namespace millrace::cli;
  constexpr int kSignal = 143;
  const auto code = [](const TrainResult& result) { return exit_code_of(result, kSignal); };
  TrainResult trained;
  CHECK(code(trained) == 0);
  trained.accounting.races.emplace();
  CHECK(code(trained) == 0);
  trained.interrupted = true;
  CHECK(code(trained) == kSignal);
  trained.stream_complete = false;
  CHECK(code(trained) == 3);
  TrainResult of_this_rank = trained, of_another = trained;
  of_this_rank.accounting.races->emplace_back("a race");
  CHECK(code(of_this_rank) == 4);
  of_another.ranks.resize(2);
  CHECK(code(of_another) == 3);
  of_another.ranks[1].races.emplace_back("a race");
  CHECK(code(of_another) == 4);

  std::vector<FootprintTable> tables(2);
  tables[1].rows.resize(2);
  CHECK(!raced(tables));
  tables[1].rows[1].races = {"a race"};
  CHECK(raced(tables));
  std::vector<PipelineRow> rows(2);
  CHECK(!raced(rows));
  rows[1].races = {"a race"};
  CHECK(raced(rows));
}

TEST_CASE("train: a gzip file gives the same bits, also resumed within an epoch") {
  const ScratchFolder scratch;
  const std::string text = criteo_lines(3000), checkpoint = (scratch / "run").string();
  const std::string plain = scratch.write("clicks.tsv", text).string();
  const std::string packed = scratch.write("clicks.gz", gzipped(text)).string();
  const auto run = [](const std::string& file, std::vector<std::string> more) {
    more.insert(more.begin(), {"--data", file, "--batch-size", "256", "--epochs", "2"});
    return train_run(more);
  };
  const auto whole = run(plain, {});
  CHECK(whole["steps"] == 2 * 12);
  CHECK(whole["epochs"][0]["examples"] == 2996);
  CHECK(whole["data"]["malformed_lines"]["count"] == 4);
  const auto part = run(packed, {"--steps", "17", "--save", checkpoint});
  CHECK(part["steps"] == 17);
  const auto rest = run(packed, {"--pipeline", "sparse-dist", "--load", checkpoint});
  CHECK(rest["weights_digest"] == whole["weights_digest"]);
  CHECK(rest["test"]["auc"] == whole["test"]["auc"]);
}

TEST_CASE("train: --eval without a checkpoint is refused") {
  const ProgramRun run = run_program({"train", "--data", "synthetic", "--eval"});
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, Catch::Matchers::ContainsSubstring("where: --eval") &&
                          Catch::Matchers::ContainsSubstring("right: --load FILE as well"));
}

TEST_CASE("train: --eval tests a checkpoint and changes nothing") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "run").string();
  const auto saved = train_run(synthetic({"--epochs", "1", "--save", file}));
  const std::string before = read_file(file);
  const auto tested = train_run(synthetic({"--load", file, "--eval"}));
  CHECK(tested["test"]["auc"] == saved["test"]["auc"]);
  CHECK(tested["weights_digest"] == saved["weights_digest"]);
  CHECK(tested["epochs"].empty());
  CHECK(read_file(file) == before);
}

TEST_CASE("train: Ctrl-C ends a run with a checkpoint, from which it can be resumed") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "run").string();
  const std::string said = interrupted(
      {"train", "--data", "synthetic", "--epochs", "100000", "--examples", "512", "--save", file},
      scratch);
  const auto tested =
      train_run({"--data", "synthetic", "--examples", "512", "--load", file, "--eval"});
  CHECK_THAT(said, ContainsSubstring(tested["weights_digest"].get<std::string>()));
}

TEST_CASE("train: a terminal shows rate and remaining time in one line, cleared at the end") {
  const ScratchFolder scratch;
  Terminal terminal;
  StartedProgram program{
      {"train", "--data", "synthetic", "--epochs", "1000000", "--batch-size", "1", "--check-races"},
      (scratch / "out").string(),
      terminal.name()};
  const std::string seen = terminal.read_until(" left");
  CHECK_THAT(seen, ContainsSubstring("epoch 1 of 1,000,000: step ") &&
                       ContainsSubstring(" of 32,768, ") && ContainsSubstring(" examples/s, ") &&
                       ContainsSubstring(" h "));
  program.signal(SIGINT);
  const std::string rest = terminal.read_all();
  CHECK(rest.substr(rest.rfind('\r')) == "\r\x1b[K");
  CHECK(program.wait() == 130);
}

TEST_CASE("train: the document has the run, its weights and its memory") {
  const auto run = train_run(synthetic({"--epochs", "1", "--check-races"}));
  CHECK(run["schema"] == "millrace.train/1");
  CHECK(run["steps"] == 11);
  CHECK(run["epochs"][0]["examples"] == 1000);
  CHECK(run["weights_digest"].get<std::string>().size() == 9 + 32);
  CHECK(run["interrupted"] == false);
  CHECK(run["memory"]["races"].empty());
  CHECK(run["memory"]["bytes"]["reserved"]["peak"] >= run["memory"]["bytes"]["active"]["peak"]);
  CHECK(run["examples_per_second"] > 0);
}
