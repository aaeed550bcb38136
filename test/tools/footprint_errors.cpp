#include <algorithm>
#include <string>
#include <vector>

#include "millrace/device/cuda_device.hpp"
#include "test/support/catch.hpp"
#include "test/tools/program.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Checks that the command refuses its arguments as bad input. Returns the message.
std::string footprint_refusal(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "footprint");
  const ProgramRun run = run_program(arguments);
  CHECK(run.exit_code == 2);
  CHECK(run.out.empty());
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') <= 3);
  CHECK_THAT(run.err, ContainsSubstring("millrace footprint: "));
  return run.err;
}

std::string named_workload(const std::string& more) {
  return R"({"schema": "millrace.workload/1", "batch_size": 10, "num_unweighted_features": 1,
             "activations": "1MiB")" +
         more + "}";
}

}  // namespace

TEST_CASE("an unknown option is refused with a suggestion") {
  CHECK_THAT(footprint_refusal({"--fromat", "json"}),
             ContainsSubstring("'--fromat'") && ContainsSubstring("did you mean --format?"));
  CHECK_THAT(footprint_refusal({"--nothing-like-it"}), ContainsSubstring("--help"));
}

TEST_CASE("an option without its value and an unexpected word are refused") {
  CHECK_THAT(footprint_refusal({"--seed"}), ContainsSubstring("--seed"));
  CHECK_THAT(footprint_refusal({"table"}), ContainsSubstring("'table'"));
}

TEST_CASE("an unknown name is refused with its option and the valid names") {
  CHECK_THAT(footprint_refusal({"--allocator", "troch"}),
             ContainsSubstring("'troch'") && ContainsSubstring("where: --allocator") &&
                 ContainsSubstring("torch, millrace, driver, all") &&
                 ContainsSubstring("did you mean torch?"));
  CHECK_THAT(footprint_refusal({"--copy", "ring,side_stream"}),
             ContainsSubstring("'side_stream'") && ContainsSubstring("driver-async") &&
                 ContainsSubstring("did you mean side-stream?"));
  CHECK_THAT(footprint_refusal({"--copy", ""}), ContainsSubstring("side-stream"));
  CHECK_THAT(footprint_refusal({"--waits", "fine"}),
             ContainsSubstring("coarse, precise") && !ContainsSubstring("all"));
  CHECK_THAT(footprint_refusal({"--format", "xml"}), ContainsSubstring("text, json"));
  CHECK_THAT(footprint_refusal({"--workload", "sparse_data_dist"}),
             ContainsSubstring("did you mean sparse_data_dist_base?"));
}

TEST_CASE("an unknown device is refused with the list of devices") {
  for (const std::string name :
       {"virtual:b200", "virtual:", "h200", "cuda:", "cuda:-1", "cuda:x"}) {
    INFO(name);
    CHECK_THAT(footprint_refusal({"--device", name}),
               ContainsSubstring("'" + name + "'") && ContainsSubstring("virtual:h200"));
  }
}

TEST_CASE("a GPU that does not exist is refused with the reason") {
  const CudaDeviceCount gpus = cuda_device_count();
  const std::string said = footprint_refusal({"--device", "cuda:" + std::to_string(gpus.count)});
  if (gpus.count == 0) {
    CHECK_THAT(said, ContainsSubstring(gpus.reason.substr(0, 40)));
  } else {
    CHECK_THAT(said, ContainsSubstring("the last GPU is"));
  }
}

TEST_CASE("invalid sizes and numbers are refused with the valid range") {
  const std::vector<std::vector<std::string>> wrong{
      {"--activations", "-4GiB"},
      {"--activations", "0"},
      {"--activations", "4 gigs"},
      {"--batch-bytes", "0KiB"},
      {"--batch-bytes", "1PB"},
      {"--batch-bytes", "65GiB"},
      {"--compute-to-copy", "0"},
      {"--compute-to-copy", "-1"},
      {"--compute-to-copy", "nan"},
      {"--compute-to-copy", "2x"},
      {"--run-ahead", "-1"},
      {"--run-ahead", "1.5"},
      {"--steps", "0"},
      {"--steps", "4"},
      {"--steps", "99999999"},
      {"--steps", ""},
      {"--seed", "-1"},
      {"--seed", "99999999999999999999"},
      {"--seeds", "0"},
      {"--seeds", "many"},
  };
  for (const auto& arguments : wrong) {
    INFO(arguments[0] << ' ' << arguments[1]);
    const std::string said = footprint_refusal(arguments);
    CHECK_THAT(said, ContainsSubstring("'" + arguments[1] + "'") ||
                         ContainsSubstring("a size of " + arguments[1]));
    CHECK_THAT(said, ContainsSubstring("where: " + arguments[0]));
    // The message names the right value only once.
    const bool number = said.find("number from ") != std::string::npos;
    CHECK((said.find("right: ") == std::string::npos) == number);
  }
}

TEST_CASE("an invalid workload is refused with the file and the key") {
  const ScratchFolder folder;
  const auto said = [&](const std::string& text) {
    return footprint_refusal({"--workload", folder.write("mine.json", text).string()});
  };
  CHECK_THAT(said(named_workload(R"(, "num_batches": -3)")),
             ContainsSubstring("mine.json") && ContainsSubstring("'num_batches' is -3"));
  CHECK_THAT(said(named_workload(R"(, "batches": 3)")),
             ContainsSubstring("'batches' is not a key"));
  CHECK_THAT(said(named_workload(R"(, "num_batches": 3)")), ContainsSubstring("--steps"));
  CHECK_THAT(said("{"), ContainsSubstring("mine.json:1:2: this is not JSON"));
  CHECK_THAT(said(""), ContainsSubstring("this is not JSON"));
  CHECK_THAT(footprint_refusal({"--workload", (folder / "none.json").string()}),
             ContainsSubstring("none.json: cannot be opened"));
  CHECK_THAT(footprint_refusal({"--workload", (folder / "").string()}),
             ContainsSubstring("is a folder"));
}

TEST_CASE("a file that cannot be written is refused before anything runs") {
  const ScratchFolder folder;
  CHECK_THAT(footprint_refusal({"-o", (folder / "none" / "x").string()}),
             ContainsSubstring("none") && ContainsSubstring("where: -o"));
  CHECK_THAT(footprint_refusal({"-o", (folder / "").string()}),
             ContainsSubstring("it is a folder"));
  CHECK_THAT(footprint_refusal({"-o", ""}), ContainsSubstring("where: -o"));
  CHECK(folder.names().empty());
}

TEST_CASE("an unknown command is refused with a suggestion") {
  const ProgramRun run = run_program({"fotprint"});
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err,
             ContainsSubstring("'fotprint'") && ContainsSubstring("did you mean footprint"));
  CHECK_THAT(run_program({"stream"}).err,
             ContainsSubstring("millrace stream: a command is required\n  right: ") &&
                 ContainsSubstring("apply, verify, status, bench"));
  CHECK_THAT(run_program({"run"}).err, ContainsSubstring("millrace run: COMMAND is required\n"));
  CHECK(run_program({}).exit_code == 2);
  CHECK(run_program({"--nothing"}).exit_code == 2);
}

TEST_CASE("help and version end with exit code 0") {
  CHECK_THAT(run_program({"--help"}).out, ContainsSubstring("footprint"));
  CHECK_THAT(run_program({"footprint", "--help"}).out, ContainsSubstring("--compute-to-copy"));
  CHECK_THAT(run_program({"--version"}).out, ContainsSubstring("millrace "));
  CHECK(run_program({"--version"}).exit_code == 0);
}
