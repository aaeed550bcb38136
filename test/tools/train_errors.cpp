#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "test/support/catch.hpp"
#include "test/tools/program.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string train_refusal(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "train");
  const ProgramRun run = run_program(arguments);
  CHECK(run.exit_code == 2);
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') <= 3);
  CHECK_THAT(run.err, ContainsSubstring("millrace train: "));
  return run.err;
}

constexpr const char* kErrorPositions = R"({"schema": "millrace.model/1", "width": 8,
  "position_weights": {"s0": 2}, "dense_arch": [8], "over_arch": [8]})";

std::vector<std::string> quick(std::vector<std::string> more) {
  std::vector<std::string> arguments{"--data",   "synthetic", "--examples",   "512",
                                     "--epochs", "1",         "--batch-size", "64"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string criteo_line(const std::string& label, const std::string& category) {
  std::string line = label;
  for (int i = 0; i < 13; ++i) line += "\t" + std::to_string(i);
  for (int i = 0; i < 26; ++i) line += "\t" + category;
  return line + "\n";
}

}  // namespace

TEST_CASE("train: unknown names are refused with the valid names") {
  CHECK_THAT(train_refusal(quick({"--pipeline", "sparse-dst"})),
             ContainsSubstring("did you mean sparse-dist?"));
  CHECK_THAT(train_refusal(quick({"--copy", "rign"})), ContainsSubstring("did you mean ring?"));
  CHECK_THAT(train_refusal(quick({"--waits", "fine"})), ContainsSubstring("coarse, precise"));
  CHECK_THAT(train_refusal(quick({"--allocator", "troch"})),
             ContainsSubstring("did you mean torch?"));
  CHECK_THAT(train_refusal(quick({"--device", "virtual:b200"})),
             ContainsSubstring("virtual:h200, cuda:N, cuda:local"));
  CHECK_THAT(train_refusal(quick({"--model", "audlt"})), ContainsSubstring("did you mean adult?"));
  CHECK_THAT(train_refusal(quick({"--epochs", "-1"})),
             ContainsSubstring("'-1' is not a whole number from 0 to 1000000\n  where: --epochs"));
  CHECK_THAT(train_refusal(quick({"--batch-size", "0"})), ContainsSubstring("--batch-size"));
  CHECK_THAT(train_refusal({}), ContainsSubstring("--data") && ContainsSubstring("synthetic"));
}

TEST_CASE("train: options of another pipeline and contradicting options are refused") {
  CHECK_THAT(
      train_refusal(quick({"--lookup-stream", "own"})),
      ContainsSubstring("this would have no effect: only fused-sparse-dist has this option") &&
          ContainsSubstring("right: --pipeline fused-sparse-dist"));
  CHECK_THAT(train_refusal(quick({"--pipeline", "sparse-dist", "--start-batch", "3"})),
             ContainsSubstring("semi-sync"));
  CHECK_THAT(train_refusal(quick({"--copies-ahead", "-1"})), ContainsSubstring("--copies-ahead"));
  CHECK_THAT(train_refusal(quick({"--pipeline", "semi-sync", "--start-batch", "soon"})),
             ContainsSubstring("--start-batch"));
  CHECK_THAT(
      train_refusal(quick({"--pipeline", "fused-sparse-dist", "--lookup-position", "befor"})),
      ContainsSubstring("after-optimizer"));
  CHECK_THAT(train_refusal(quick({"--pipeline", "fused-sparse-dist", "--lookup-position",
                                  "before-optimizer", "--order-lookup-after-dense"})),
             ContainsSubstring("after-data-dist"));
}

TEST_CASE("train: an invalid cache size and a cache policy without a cache are refused") {
  CHECK_THAT(train_refusal(quick({"--cache-load-factor", "0"})),
             ContainsSubstring("--cache-load-factor"));
  CHECK_THAT(train_refusal(quick({"--cache-load-factor", "1.5"})),
             ContainsSubstring("--cache-load-factor"));
  CHECK_THAT(train_refusal(quick({"--cache-policy", "lru"})),
             ContainsSubstring("--cache-load-factor"));
  CHECK_THAT(train_refusal(quick({"--pipeline", "prefetch-sparse-dist", "--cache-policy", "lur"})),
             ContainsSubstring("did you mean lru?"));
}

TEST_CASE("train: fused-sparse-dist refuses position weights, unless lookups are ordered") {
  const ScratchFolder scratch;
  const std::string model = scratch.write("model.json", kErrorPositions).string();
  const std::vector<std::string> fused =
      quick({"--model", model, "--pipeline", "fused-sparse-dist"});
  CHECK_THAT(train_refusal(fused), ContainsSubstring("position weights") &&
                                       ContainsSubstring("--order-lookup-after-dense"));
  std::vector<std::string> ordered = fused;
  ordered.insert(ordered.end(), {"--order-lookup-after-dense"});
  ordered.insert(ordered.begin(), "train");
  CHECK(run_program(ordered).exit_code == 0);
}

TEST_CASE("train: data that do not exist or have an unknown format are refused") {
  const ScratchFolder scratch;
  CHECK_THAT(train_refusal({"--data", (scratch / "none").string()}), ContainsSubstring("none"));
  const std::string said = train_refusal({"--data", "adult:" + (scratch / "none").string()});
  CHECK_THAT(said, ContainsSubstring("adult.data") && ContainsSubstring("MILLRACE_DATA"));
  const auto file = scratch.write("data.csv", "a,b,c\n1,2,3\n");
  CHECK_THAT(train_refusal({"--data", file.string()}),
             ContainsSubstring("40 columns") && ContainsSubstring("--data-format"));
  CHECK_THAT(train_refusal(quick({"--test", file.string()})), ContainsSubstring("--test"));
}

TEST_CASE("train: malformed lines are left out, counted and shown, up to a limit") {
  const ScratchFolder scratch;
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += criteo_line(i % 3 == 0 ? "1" : "0", i % 2 == 0 ? "aa" : "bb");
    if (i % 50 == 7) text += "1\t2\t3\n";
  }
  const auto file = scratch.write("train.tsv", text);
  const std::vector<std::string> run{"train", "--data",       file.string(), "--epochs",
                                     "1",     "--batch-size", "64"};
  const ProgramRun good = run_program(run);
  CHECK(good.exit_code == 0);
  CHECK_THAT(good.out, ContainsSubstring("4 malformed lines") && ContainsSubstring("line 9"));
  CHECK_THAT(train_refusal({"--data", file.string(), "--epochs", "1", "--malformed", "3"}),
             ContainsSubstring("4 malformed lines"));
}

TEST_CASE("train: data without an example are refused for training and for testing") {
  const ScratchFolder scratch;
  const std::string empty = scratch.write("empty.tsv", "").string();
  const std::string malformed = scratch.write("malformed.tsv", "1\t2\n3\n").string();
  const std::string line = scratch.write("line.tsv", criteo_line("1", "aa")).string();
  CHECK_THAT(train_refusal({"--data", empty, "--data-format", "criteo"}),
             ContainsSubstring("no example to train on") && ContainsSubstring("empty.tsv"));
  const std::string trained = (scratch / "trained").string();
  REQUIRE(run_program({"train", "--data", line, "--data-format", "criteo", "--epochs", "1",
                       "--save", trained})
              .exit_code == 0);
  CHECK_THAT(
      train_refusal({"--data", empty, "--data-format", "criteo", "--load", trained, "--eval"}),
      ContainsSubstring("no example to test on") && ContainsSubstring("empty.tsv"));
  CHECK_THAT(train_refusal({"--data", malformed, "--data-format", "criteo"}),
             ContainsSubstring("no example to train on") &&
                 ContainsSubstring("2 malformed lines") && ContainsSubstring("malformed.tsv"));
  CHECK_THAT(train_refusal({"--data", line, "--data-format", "criteo", "--test", empty}),
             ContainsSubstring("no example to test on") && ContainsSubstring("empty.tsv"));
  CHECK_THAT(train_refusal({"--data", empty, "--data-format", "criteo", "--ranks", "2"}),
             ContainsSubstring("no example to train on"));
  CHECK(
      run_program({"train", "--data", "synthetic", "--examples", "1", "--epochs", "1"}).exit_code ==
      0);
}

TEST_CASE("train: a run that diverges is an error and keeps the old checkpoint") {
  const ScratchFolder scratch;
  const auto model = scratch.write("wild.json", R"({"schema": "millrace.model/1", "width": 8,
    "dense_arch": [16, 8], "dense_optimizer": {"kind": "sgd", "learning_rate": 1000},
    "table_optimizer": {"kind": "sgd", "learning_rate": 1000}})");
  const auto tame = scratch.write("tame.json", R"({"schema": "millrace.model/1", "width": 8,
    "dense_arch": [16, 8]})");
  const std::string file = (scratch / "run").string();
  CHECK(run_program({"train", "--data", "synthetic", "--examples", "512", "--epochs", "1",
                     "--model", tame.string(), "--save", file})
            .exit_code == 0);
  const std::string before = read_file(file);
  for (const char* const ranks : {"1", "2"}) {
    for (const bool saves : {true, false}) {
      std::vector<std::string> run =
          quick({"--model", model.string(), "--ranks", ranks, "--save", file});
      if (saves) run.insert(run.end(), {"--save-every", "3"});
      CHECK_THAT(train_refusal(run), ContainsSubstring("diverged"));
      CHECK(read_file(file) == before);
    }
  }
  const std::string said = train_refusal(quick({"--model", model.string()}));
  CHECK_THAT(said, ContainsSubstring("the training diverged: the loss of step ") &&
                       ContainsSubstring("epoch 1") && ContainsSubstring("learning_rate"));
}

TEST_CASE("train: an id that is not a row of its table is named with table and value") {
  const ScratchFolder scratch;
  const auto model = scratch.write(
      "small.json", R"({"schema": "millrace.model/1", "width": 8, "dense_arch": [16, 8],
                        "tables": {"s2": {"rows": 10}}})");
  for (const char* const pipeline : {"base", "sparse-dist"}) {
    const std::string said =
        train_refusal(quick({"--model", model.string(), "--pipeline", pipeline}));
    CHECK_THAT(said, ContainsSubstring("of feature 's2' is not a row of the table 's2', which "
                                       "has 10") &&
                         ContainsSubstring("(synthetic: epoch 1, batch 1, example ") &&
                         ContainsSubstring("right: ids from 0 to 9, or a --model whose table"));
  }
}

TEST_CASE("train: models that do not fit the data or are inconsistent are refused") {
  const ScratchFolder scratch;
  const auto model = [&](const std::string& more) {
    return scratch.write("model.json", R"({"schema": "millrace.model/1", )" + more + "}").string();
  };
  CHECK_THAT(train_refusal(quick({"--model", model(R"("tables": {"s9": {}})")})),
             ContainsSubstring("'s9'") && ContainsSubstring("s0, s1"));
  CHECK_THAT(train_refusal(quick({"--model", model(R"("width": 8, "dense_arch": [16, 4])")})),
             ContainsSubstring("8 wide") && ContainsSubstring("--model"));
  CHECK_THAT(train_refusal(quick({"--model", model(R"("widht": 8)")})), ContainsSubstring("widht"));
  CHECK_THAT(train_refusal(quick({"--model", (scratch / "none.json").string()})),
             ContainsSubstring("none.json"));
}

TEST_CASE("train: output files that cannot be written are refused before the training") {
  const ScratchFolder scratch;
  const std::string nowhere = (scratch / "no/where").string();
  for (const char* const option : {"--save", "--json"}) {
    const ProgramRun run = run_program({"train", "--data", "synthetic", option, nowhere});
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK_THAT(run.err, ContainsSubstring("cannot be written") && ContainsSubstring("no/where"));
  }
}

TEST_CASE("train: checkpoints of other runs and damaged ones are refused with the reason") {
  const ScratchFolder scratch;
  const std::string file = (scratch / "run").string();
  std::vector<std::string> save = quick({"--save", file});
  save.insert(save.begin(), "train");
  REQUIRE(run_program(save).exit_code == 0);
  const auto load = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"--data", "synthetic", "--examples", "512", "--load", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return train_refusal(arguments);
  };
  CHECK_THAT(load({"--seed", "2"}), ContainsSubstring("seed 1, not 2"));
  CHECK_THAT(load({"--batch-size", "32"}), ContainsSubstring("batch-size 64, not 32"));
  CHECK_THAT(load({"--model", "criteo"}), ContainsSubstring("another model"));
  CHECK_THAT(load({"--freeze-tables"}), ContainsSubstring("table_optimizer"));

  const std::string good = read_file(file);
  static_cast<void>(scratch.write("run", good.substr(0, good.size() / 2)));
  CHECK_THAT(load({}), ContainsSubstring("cut short") && ContainsSubstring(file));
  std::string flipped = good;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 8);
  static_cast<void>(scratch.write("run", flipped));
  CHECK_THAT(load({}), ContainsSubstring("checksum") && ContainsSubstring("bytes"));
}
