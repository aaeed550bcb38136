#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "millrace/device/profile.hpp"
#include "test/support/catch.hpp"
#include "test/tools/program.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

namespace {

/// TorchRec's pull request 2916 with fewer batches. Only its full size shows which times are
/// exposed and which are hidden.
Json pr2916(std::vector<std::string> more) {
  const std::vector<std::string> first{
      "pipelines", "--workload",  "pr2916",      "--steps", "4",        "--seeds", "1",
      "--copy",    "side-stream", "--allocator", "torch",   "--format", "json"};
  more.insert(more.begin(), first.begin(), first.end());
  const ProgramRun run = run_program(more);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return Json::parse(run.out);
}

double runtime(const Json& row) { return row.at("runtime_ms").at("p50"); }

/// A user's workload, with these additional keys.
std::string workload(const std::string& more) {
  return R"({"schema": "millrace.workload/1", "batch_size": 4096, "world_size": 2, "activations": 1,
      "num_batches": 3, "num_unweighted_features": 4, "base_row_size": 1000, "run_ahead": 64,
      "embedding_feature_dim": 256, "model": {"dense_arch": [], "over_arch": [8],
      "interaction": "concatenate"})" +
         more + "}";
}

}  // namespace

TEST_CASE("pipelines: a slower link makes exchanges longer, by option and by the workload's key") {
  const ScratchFolder folder;
  const auto run = [&](const std::string& text, std::vector<std::string> more) {
    const auto file = folder.write("mine.json", text);
    more.insert(more.begin(),
                {"pipelines", "--workload", file.string(), "--seeds", "1", "--pipeline", "base",
                 "--copy", "precise", "--allocator", "torch", "--format", "json"});
    const ProgramRun made = run_program(more);
    INFO(made.err);
    REQUIRE(made.exit_code == 0);
    return Json::parse(made.out);
  };
  const auto exposed = [](const Json& document) {
    return document.at("rows").at(0).at("exposed_exchange_ms").get<double>();
  };
  const Json device = run(workload(""), {});
  const Json option = run(workload(""), {"--link-gb-per-s", "4"});
  const Json key = run(workload(R"(, "exchange_gb_per_s": 4)"), {});
  const Json both =
      run(workload(R"(, "exchange_gb_per_s": 4)"),
          {"--link-gb-per-s", fmt::format("{}", DeviceProfile::named("h100").peer_to_peer / 1e9)});
  const double h100 = DeviceProfile::named("h100").peer_to_peer / 1e9;
  CHECK(device.at("workload").at("exchange_gb_per_s") == Approx(h100));
  CHECK(option.at("workload").at("exchange_gb_per_s") == 4);
  CHECK(exposed(option) > 5 * exposed(device));
  CHECK(option.at("rows") == key.at("rows"));
  CHECK(both.at("rows") == device.at("rows"));
  for (const char* const wrong : {"0", "-1", "fast"}) {
    const ProgramRun refused = run_program({"pipelines", "--link-gb-per-s", wrong});
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, ContainsSubstring("where: --link-gb-per-s"));
  }
}

TEST_CASE("pipelines: with a slow link and a long optimizer the gains are as published") {
  const Json slow = pr2916({"--device", "virtual:a100", "--link-gb-per-s", "16", "--optimizer-work",
                            "64", "--pipeline", "sparse-dist,fused-sparse-dist,semi-sync"});
  const Json& rows = slow.at("rows");
  REQUIRE(rows.size() == 3);
  // Published ratios to sparse-dist: 0.929 and 0.903.
  CHECK(runtime(rows.at(1)) / runtime(rows.at(0)) == Approx(0.929).margin(0.03));
  CHECK(runtime(rows.at(2)) / runtime(rows.at(0)) == Approx(0.903).margin(0.06));
}

TEST_CASE("pipelines: a lookup before or after the optimizer takes the same time") {
  const std::vector<std::string> both{"--pipeline",        "fused-sparse-dist",
                                      "--lookup-position", "before-optimizer,after-optimizer",
                                      "--optimizer-work",  "1,64"};
  std::vector<std::string> slow = both;
  slow.insert(slow.end(), {"--device", "virtual:a100", "--link-gb-per-s", "16"});
  for (const Json& document : {pr2916(both), pr2916(slow)}) {
    const Json& rows = document.at("rows");
    REQUIRE(rows.size() == 4);
    for (const std::size_t row : {0, 2}) {
      CHECK(rows.at(row).at("lookup").at("position") == "after-optimizer");
      CHECK(rows.at(row + 1).at("lookup").at("position") == "before-optimizer");
      CHECK(runtime(rows.at(row)) == Approx(runtime(rows.at(row + 1))).epsilon(0.005));
      CHECK(rows.at(row).at("peak_allocated_bytes") == rows.at(row + 1).at("peak_allocated_bytes"));
    }
  }
}

TEST_CASE("pipelines: published figures are shown only for their own workload") {
  const auto says = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"pipelines", "--wide", "--seeds", "1", "--pipeline", "sparse-dist",
                               "--copy", "side-stream", "--allocator", "torch"});
    const ProgramRun run = run_program(more);
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    return run.out.find("Published") != std::string::npos;
  };
  const ScratchFolder folder;
  CHECK(says({"--workload", "pr2916", "--steps", "2"}));
  CHECK_FALSE(says({"--workload", "pr2916", "--steps", "2", "--batch-size", "512"}));
  CHECK_FALSE(says({"--workload", "pr2916", "--steps", "2", "--ranks", "4"}));
  CHECK_FALSE(says({"--workload", folder.write("pr2916.json", workload("")).string()}));
}

TEST_CASE("pipelines: values that the driver's pool does not report are null, or a dash") {
  const std::vector<std::string> arguments{"pipelines",
                                           "--workload",
                                           "pr2916",
                                           "--steps",
                                           "2",
                                           "--seeds",
                                           "1",
                                           "--pipeline",
                                           "base",
                                           "--batch-size",
                                           "512",
                                           "--copy",
                                           "precise,driver-async",
                                           "--allocator",
                                           "torch,driver"};
  std::vector<std::string> as_json = arguments;
  as_json.insert(as_json.end(), {"--format", "json"});
  for (const Json& row : Json::parse(run_program(as_json).out).at("rows")) {
    INFO(row.at("allocator") << ' ' << row.at("copy"));
    const bool pool = row.at("allocator") == "driver" || row.at("copy") == "driver-async";
    CHECK(row.at("stranded_peak_bytes").is_null() == pool);
    CHECK(row.at("shares").at("idle_at_peak").is_null() == pool);
  }
  std::vector<std::string> wide = arguments;
  wide.emplace_back("--wide");
  CHECK_THAT(run_program(wide).out, ContainsSubstring("–"));
}

TEST_CASE("pipelines: where every run is out of memory the program ends with 5") {
  const ProgramRun run = run_program(
      {"pipelines", "--workload", "pr2916", "--device", "virtual:a100", "--ranks", "1", "--seeds",
       "1", "--steps", "2", "--pipeline", "base", "--batch-size", "100000", "--copy", "precise"});
  INFO(run.out << run.err);
  CHECK(run.exit_code == 5);
  CHECK_THAT(run.out, ContainsSubstring("out of memory"));
}
