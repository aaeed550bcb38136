#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "pipelines/json.hpp"
#include "pipelines/table.hpp"
#include "test/support/catch.hpp"
#include "test/tools/program.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

namespace {

const std::vector<std::string> kSmallPipelines{
    "pipelines", "--workload", "pr2916", "--steps", "4", "--batch-size", "512", "--seeds", "2"};

ProgramRun small_pipelines(const std::vector<std::string>& more) {
  return run_program(joined(kSmallPipelines, more));
}
Json pipelines_document(const std::vector<std::string>& more) {
  return document_of(joined(kSmallPipelines, more));
}

}  // namespace

TEST_CASE("pipelines: every pipeline is a row, with time, bound, memory and no race") {
  const Json json = pipelines_document({"--copy", "precise", "--allocator", "torch"});
  CHECK(json.at("schema") == "millrace.pipelines/1");
  CHECK(json.at("workload").at("model").at("over_arch").size() == 6);
  CHECK(json.at("rows").size() >= 3);
  for (const Json& row : json.at("rows")) {
    INFO(row.dump());
    CHECK(row.at("copy") == "precise");
    CHECK(row.at("waits") == "coarse");
    CHECK(row.at("allocator") == "torch");
    CHECK(row.at("bound_ms") > 0);
    CHECK(row.at("runtime_ms").at("p50") >= row.at("bound_ms"));
    CHECK(row.at("runtime_ms").at("p90") >= row.at("runtime_ms").at("p50"));
    CHECK(row.at("peak_reserved_bytes") >= row.at("peak_allocated_bytes"));
    CHECK(row.at("ladder").at("l0") <= row.at("ladder").at("reserved"));
    CHECK(row.at("races") == 0);
    for (const Json& busy : row.at("utilization")) CHECK((busy >= 0 && busy <= 1));
  }
}

TEST_CASE("pipelines: for pr2916 precise on millrace reserves no more than in-place on torch") {
  const auto rows_of = [](const char* copies, const char* allocator) {
    const ProgramRun run =
        run_program({"pipelines", "--workload", "pr2916", "--seeds", "1", "--copy", copies,
                     "--allocator", allocator, "--format", "json"});
    REQUIRE(run.exit_code == 0);
    return Json::parse(run.out).at("rows");
  };
  const Json torch = rows_of("in-place,side-stream", "torch");
  const auto of_torch = [&](const Json& pipeline, const char* copy) {
    const auto row = std::ranges::find_if(torch, [&](const Json& candidate) {
      return candidate.at("pipeline") == pipeline && candidate.at("copy") == copy;
    });
    REQUIRE(row != torch.end());
    return *row;
  };
  const Json rows = rows_of("precise", "millrace");
  CHECK(rows.size() == 6);
  for (const Json& row : rows) {
    INFO(row.dump());
    const Json in_place = of_torch(row.at("pipeline"), "in-place");
    const Json side_stream = of_torch(row.at("pipeline"), "side-stream");
    CHECK(row.at("peak_reserved_bytes") <= in_place.at("peak_reserved_bytes"));
    const double time = row.at("runtime_ms").at("p50");
    CHECK(time <= 1.01 * side_stream.at("runtime_ms").at("p50").get<double>());
  }
}

TEST_CASE("pipelines: tables in host memory take less device memory and more time") {
  const std::vector<std::string> one{"--copy", "precise",    "--allocator",
                                     "torch",  "--pipeline", "sparse-dist,prefetch-sparse-dist"};
  const Json plain = pipelines_document(one);
  std::vector<std::string> more = one;
  more.insert(more.end(), {"--cache-load-factor", "0.2", "--cache-policy", "lfu"});
  const Json cached = pipelines_document(more);
  CHECK(plain.at("options").at("cache").is_null());
  CHECK(cached.at("options").at("cache").at("policy") == "lfu");
  for (std::size_t row = 0; row < 2; ++row) {
    const Json &on_device = plain.at("rows").at(row), &in_host = cached.at("rows").at(row);
    CHECK(in_host.at("peak_allocated_bytes") < on_device.at("peak_allocated_bytes"));
    CHECK(in_host.at("runtime_ms").at("p50") > on_device.at("runtime_ms").at("p50"));
    CHECK(in_host.at("races") == 0);
  }
  // Rows that a prefetch loads delay a step less than rows that the lookup loads.
  const auto runtime = [&](std::size_t row) {
    return cached.at("rows").at(row).at("runtime_ms").at("p50").get<double>();
  };
  CHECK(runtime(1) < runtime(0));
}

TEST_CASE("pipelines: the table has the rows of the options and explains its columns") {
  const ProgramRun run = small_pipelines({"--pipeline", "base", "--waits", "all"});
  CHECK(run.exit_code == 0);
  for (const char* const word : {"pr2916", "base", "side-stream", "in-place", "precise", "coarse",
                                 "torch", "millrace", "reserved", "exposed", "modeled"}) {
    CHECK_THAT(run.out, ContainsSubstring(word));
  }
  CHECK(run.out.find("sparse-dist") == std::string::npos);
  CHECK(run.out.find("bound") == std::string::npos);
  const ProgramRun wide = small_pipelines({"--pipeline", "base", "--wide"});
  for (const char* const word : {"bound", "busy", "strand", "ahead", "GB/s"}) {
    CHECK_THAT(wide.out, ContainsSubstring(word));
  }
}

TEST_CASE("pipelines: a race of any seed is reported, also if the shown run has none") {
  cli::PipelinesOptions options;
  options.workload = experiment::Workload::named("pr2916");
  options.seeds = 2;
  cli::PipelineRow row;
  row.races = {"record on copy after op 91, wait on main before op 104"};
  row.example.runtime = Nanoseconds{1};
  CHECK_THAT(cli::render_table({row}, options, cli::Painter{false}),
             ContainsSubstring("record on copy after op 91"));
  const Json json = cli::to_document({row}, options);
  CHECK(json.at("rows").front().at("races") == 1);
  CHECK(json.at("rows").front().at("race_messages").size() == 1);
}

TEST_CASE("pipelines: the picture has a mark for each row") {
  const auto file = std::filesystem::temp_directory_path() / "millrace-pipelines-test.svg";
  const ProgramRun run =
      small_pipelines({"--pipeline", "base", "--copy", "ring,side-stream", "--svg", file});
  CHECK(run.exit_code == 0);
  std::ostringstream svg;
  svg << std::ifstream{file}.rdbuf();
  std::filesystem::remove(file);
  CHECK_THAT(svg.str(), ContainsSubstring("</svg>"));
  for (const char* const row : {"base torch side-stream", "base torch ring",
                                "base millrace side-stream", "base millrace ring"}) {
    CHECK_THAT(svg.str(), ContainsSubstring(row));
  }
}

TEST_CASE("pipelines: an invalid model is refused with its workload's name") {
  const auto file = std::filesystem::temp_directory_path() / "millrace-pipelines-model.json";
  std::ofstream{file} << R"({"schema": "millrace.workload/1", "batch_size": 4, "activations": 1,
      "num_unweighted_features": 2, "base_row_size": 0, "embedding_feature_dim": 4,
      "model": {"dense_arch": [], "over_arch": [8], "interaction": "concatenate"}})";
  const ProgramRun run = run_program({"pipelines", "--workload", file, "--seeds", "1"});
  std::filesystem::remove(file);
  INFO(run.err);
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, ContainsSubstring("table 'u0' has no rows"));
  CHECK_THAT(run.err, ContainsSubstring("the model of the workload millrace-pipelines-model"));
}

TEST_CASE("pipelines: invalid input is refused in at most three lines with valid input") {
  const auto refused = [](std::vector<std::string> more, const char* why) {
    const ProgramRun run = small_pipelines(more);
    INFO(run.err);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') <= 3);
    CHECK_THAT(run.err, ContainsSubstring(why));
    CHECK_THAT(run.err, ContainsSubstring("right:") || ContainsSubstring("number from "));
  };
  refused({"--pipeline", "sparse-dst"}, "did you mean sparse-dist");
  refused({"--device", "cuda:0"}, "virtual");
  refused({"--ranks", "0"}, "--ranks");
  refused({"--cache-load-factor", "2"}, "--cache-load-factor");
  refused({"--cache-policy", "lfu"}, "--cache-load-factor");
  refused({"--workload", "train_pipeline_base"}, "train_pipeline_base");
  refused({"--workload", "/does/not/exist.json"}, "exist.json");
  refused({"--svg", "/does/not/exist/picture.svg"}, "--svg");
}

TEST_CASE("pipelines: lookup positions and streams and longer optimizers have their own rows") {
  const Json json = pipelines_document({"--pipeline", "base,fused-sparse-dist", "--lookup-position",
                                        "after-optimizer,before-optimizer", "--lookup-stream",
                                        "own", "--optimizer-work", "1,4", "--copy", "precise",
                                        "--allocator", "millrace"});
  const Json& rows = json.at("rows");
  REQUIRE(rows.size() == 6);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    INFO(rows[i].dump());
    CHECK(rows[i].at("optimizer_work") == (i < 3 ? 1 : 4));
    CHECK(rows[i].at("pipeline") == (i % 3 == 0 ? "base" : "fused-sparse-dist"));
    CHECK(rows[i].contains("lookup") == (i % 3 != 0));
    CHECK(rows[i].at("races") == 0);
  }
  CHECK(rows[2].at("lookup") == Json{{"position", "before-optimizer"}, {"stream", "own"}});
  CHECK(rows[3].at("runtime_ms").at("p50") > rows[0].at("runtime_ms").at("p50"));

  const ProgramRun table =
      small_pipelines({"--pipeline", "fused-sparse-dist", "--lookup-stream", "main",
                       "--optimizer-work", "2.5", "--copy", "precise"});
  CHECK_THAT(table.out,
             ContainsSubstring("fused-sparse-dist, lookup stream main, optimizer x 2.5"));
  const Json forward =
      pipelines_document({"--forward-only", "--copy", "precise", "--allocator", "torch"});
  for (const Json& row : forward.at("rows")) {
    CHECK(row.at("forward_only") == true);
    CHECK(row.at("pipeline") != "semi-sync");
  }
  CHECK_THAT(small_pipelines({"--forward-only", "--pipeline", "base,semi-sync"}).err,
             ContainsSubstring("no lookup is stale"));
  const ProgramRun refused = small_pipelines({"--optimizer-work", "1,0.5"});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, ContainsSubstring("--optimizer-work"));
}

TEST_CASE("pipelines: only a single run can have a picture of its steps and a timeline") {
  const std::filesystem::path steps = "pipelines_steps.svg", timeline = "pipelines_timeline.json";
  const std::vector<std::string> one{"--pipeline", "semi-sync", "--copy",  "precise",
                                     "--waits",    "coarse",    "--seeds", "1"};
  std::vector<std::string> run = one;
  run.insert(run.end(), {"--allocator", "millrace", "--steps-svg", steps, "--timeline", timeline});
  const ProgramRun made = small_pipelines(run);
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  std::stringstream picture;
  picture << std::ifstream{steps}.rdbuf();
  for (const char* const word : {"</svg>", "semi-sync", "pooled-rows", ">main<", "look up"}) {
    CHECK_THAT(picture.str(), ContainsSubstring(word));
  }
  const Json trace = Json::parse(std::ifstream{timeline});
  CHECK(trace.at("traceEvents").size() > 1000);
  for (const auto& file : {steps, timeline}) std::filesystem::remove(file);

  for (const char* const option : {"--steps-svg", "--timeline"}) {
    std::vector<std::string> two = one;
    two.insert(two.end(), {"--allocator", "torch,millrace", option, steps});
    const ProgramRun refused = small_pipelines(two);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, ContainsSubstring(option));
    CHECK_FALSE(std::filesystem::exists(steps));
  }
  const ProgramRun number = run_program({"pipelines", "--steps", "base.svg"});
  CHECK(number.exit_code == 2);
  CHECK_THAT(number.err, ContainsSubstring("--steps-svg base.svg"));
}
