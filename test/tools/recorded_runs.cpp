#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/scratch_folder.hpp"
#include "test/tools/program.hpp"

using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<std::string> recorded_run(const std::string& allocator, const std::string& copy,
                                      const std::vector<std::string>& more) {
  return joined({"footprint", "--workload", "sparse_data_dist_base", "--allocator", allocator,
                 "--copy", copy, "--seeds", "1", "--steps", "6", "--batch-bytes", "64MiB"},
                more);
}

}  // namespace

TEST_CASE("the trace of a footprint run has reserved what the run did, byte by byte") {
  for (const char* const allocator : {"torch", "millrace"}) {
    for (const char* const copy : {"side-stream", "in-place"}) {
      const ScratchFolder folder;
      const std::string file = (folder / "run.trace").string();
      CAPTURE(allocator, copy);
      const auto table = document_of(recorded_run(allocator, copy, {"--record", file}));
      const auto replay = document_of({"replay", file}).at("files").at(0).at("replays").at(0);
      CHECK(replay.at("recorded_peak_reserved_bytes") ==
            table.at("runs").at(0).at("peak_reserved_bytes"));
      CHECK(replay.at("allocations") == replay.at("frees"));
    }
  }
}

TEST_CASE("a replay of a recorded run waits for its recorded uses as the run did") {
  const ScratchFolder folder;
  const std::string file = (folder / "run.trace").string();
  REQUIRE(run_program(recorded_run("torch", "side-stream", {"--record", file})).exit_code == 0);
  const auto replay =
      document_of({"replay", "--allocator", "torch", file}).at("files").at(0).at("replays").at(0);
  CHECK(replay.at("statistics").at("bytes").at("reserved").at("peak") ==
        replay.at("recorded_peak_reserved_bytes"));
}

TEST_CASE("explain names the streams and the sites of a footprint run") {
  const ScratchFolder folder;
  const std::string file = (folder / "run.trace").string();
  REQUIRE(run_program(recorded_run("torch", "side-stream", {"--record", file})).exit_code == 0);
  const ProgramRun run = run_program({"explain", file});
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, ContainsSubstring("copy") && ContainsSubstring("main") &&
                          ContainsSubstring("activations"));
  CHECK_THAT(run.out, !ContainsSubstring("default"));  // each stream of the run has a name
}

TEST_CASE("a trace is refused for several rows") {
  const ScratchFolder folder;
  const std::string file = (folder / "run.trace").string();
  const ProgramRun rows = run_program(recorded_run("torch", "all", {"--record", file}));
  CHECK(rows.exit_code == 2);
  CHECK_THAT(rows.err, ContainsSubstring("a trace shows one run, but this command runs") &&
                           ContainsSubstring("--record"));
  CHECK(folder.names().empty());
}

TEST_CASE("the trace of a training has reserved what the training did") {
  const ScratchFolder folder;
  const std::string file = (folder / "train.trace").string();
  const auto result = document_of(
      {"train", "--data", "synthetic", "--steps", "12", "--pipeline", "base", "--record", file},
      {"--json", "-"});
  const auto replay = document_of({"replay", file}).at("files").at(0).at("replays").at(0);
  CHECK(replay.at("recorded_peak_reserved_bytes") ==
        result.at("memory").at("bytes").at("reserved").at("peak"));
  CHECK(replay.at("allocations") > 0);
}
