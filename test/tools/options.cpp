#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "millrace/device/profile.hpp"
#include "millrace/experiment/workload.hpp"
#include "test/support/catch.hpp"
#include "test/tools/program.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

using Words = std::vector<std::string>;

/// A workload file with this number of batches.
std::string workload_of(unsigned batches, const ScratchFolder& scratch) {
  return scratch
      .write("steps.json", fmt::format(R"({{"schema": "millrace.workload/1", "batch_size": 10,
                "num_unweighted_features": 1, "activations": "1MiB", "num_batches": {}}})",
                                       batches))
      .string();
}

/// The message of a refusal. Checks that standard output is empty.
std::string refusal(const Words& words) {
  const ProgramRun run = run_program(words);
  INFO(fmt::format("{}\n{}", fmt::join(words, " "), run.err));
  CHECK(run.exit_code == 2);
  CHECK(run.out.empty());
  return run.err;
}

}  // namespace

TEST_CASE("options: an option without effect is refused by its name") {
  const Words synthetic{"train", "--data", "synthetic"}, eval = joined(synthetic, {"--eval"});
  const auto refused = [](const Words& words, const std::string& option) {
    CHECK_THAT(refusal(words), ContainsSubstring("no effect") && ContainsSubstring(option));
  };
  refused(joined(synthetic, {"--malformed", "3"}), "--malformed");
  for (const Words& option :
       std::vector<Words>{{"--epochs", "2"}, {"--steps", "2"}, {"--freeze-tables"}}) {
    refused(joined(eval, option), option.front());
  }
  for (const Words& option : std::vector<Words>{{"--stream-skip", "x"},
                                                {"--stream-capture", "ring"},
                                                {"--stream-content", "ids"},
                                                {"--stream-slots", "2"},
                                                {"--stream-slot-bytes", "1MiB"},
                                                {"--stream-when-full", "block"},
                                                {"--stream-gather", "own"},
                                                {"--stream-queue-bytes", "1MiB"},
                                                {"--stream-queue-policy", "block"},
                                                {"--stream-deadline", "1"}}) {
    refused(joined(synthetic, option), option.front());
  }
  const Words base{"pipelines", "--pipeline", "base"};
  refused(joined(base, {"--lookup-position", "before-optimizer"}), "--lookup-position");
  refused(joined(base, {"--lookup-stream", "own"}), "--lookup-stream");
  refused(joined(base, {"--forward-only", "--optimizer-work", "2"}), "--optimizer-work");
  refused({"stream", "bench", "--capture", "mapped", "--slots", "3"}, "--slots");
}

TEST_CASE("options: --examples is refused for data from a file") {
  const ScratchFolder scratch;
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += std::string(39, '\t') + '\n';
  const std::string file = scratch.write("criteo.tsv", lines).string();
  CHECK_THAT(refusal({"train", "--data", file, "--examples", "3"}),
             ContainsSubstring("no effect") && ContainsSubstring("--examples"));
}

TEST_CASE("options: the limit of steps is the same for an option and for a workload") {
  const ScratchFolder scratch;
  const std::string file = workload_of(1'000'001, scratch);
  CHECK_THAT(refusal({"footprint", "--workload", file}), ContainsSubstring("to 1000000"));
  CHECK_THAT(refusal({"footprint", "--steps", "1000001"}), ContainsSubstring("to 1000000"));
  CHECK_THAT(refusal({"pipelines", "--steps", "1000001"}), ContainsSubstring("to 1000000"));
}

TEST_CASE("options: a message about one step has the singular") {
  const ScratchFolder scratch;
  const std::string file = workload_of(1, scratch);
  CHECK_THAT(refusal({"footprint", "--workload", file}), ContainsSubstring("1 step is too few"));
}

TEST_CASE("options: the help of each command names every profile and workload that ships") {
  for (const Words& command :
       std::vector<Words>{{"footprint"}, {"pipelines"}, {"train"}, {"stream", "bench"}}) {
    const std::string help = run_program(joined(command, {"--help"})).out;
    for (const std::string& profile : DeviceProfile::names()) {
      CHECK_THAT(help, ContainsSubstring("virtual:" + profile));
    }
  }
  const std::string help = run_program({"footprint", "--help"}).out;
  for (const std::string& workload : experiment::Workload::names()) {
    CHECK_THAT(help, ContainsSubstring(workload));
  }
}

TEST_CASE("options: a bench that cannot be measured is refused with the option at fault") {
  const Words bench{"stream", "bench", "--steps", "2", "--capture", "ring"};
  CHECK_THAT(refusal(joined(bench, {"--slot-bytes", "1"})),
             ContainsSubstring("where: --slot-bytes") && ContainsSubstring("right: at least ") &&
                 ContainsSubstring(" bytes\n"));
  CHECK_THAT(refusal(joined(bench, {"--table-rows", "10", "--rows", "100000"})),
             ContainsSubstring("--table-rows") && ContainsSubstring("right: at least 100000 rows"));
  CHECK_THAT(refusal(joined(bench, {"--rows", "7"})),
             ContainsSubstring("right: a number of rows that 4 divides"));
}

TEST_CASE("options: an unknown table to skip is refused with the list of tables") {
  const ScratchFolder scratch;
  const std::string said =
      refusal({"train", "--data", "synthetic", "--stream", "file:" + (scratch / "sink").string(),
               "--stream-skip", "table.s9"});
  CHECK_THAT(said, ContainsSubstring("where: --stream-skip") && ContainsSubstring("table.s0"));
}

TEST_CASE("options: a refused trace does not prevent the results of the others") {
  const ScratchFolder scratch;
  const std::string good = scratch.write("good.csv", "id,lower,upper,size\n1,0,3,512\n").string();
  const std::string bad = scratch.write("bad.csv", "no trace").string();
  const std::string none = (scratch / "none.csv").string();
  const ProgramRun run = run_program({"replay", bad, good, none, "--format", "json"});
  INFO(run.err);
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, ContainsSubstring("bad.csv") && ContainsSubstring("none.csv"));
  const auto document = nlohmann::json::parse(run.out);
  REQUIRE(document["files"].size() == 1);
  CHECK(document["files"][0]["file"] == good);
  CHECK(refusal({"replay", bad}).find("bad.csv") != std::string::npos);
}
