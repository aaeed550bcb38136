#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "millrace/experiment/workload.hpp"
#include "millrace/pipeline/data/copy_strategy.hpp"
#include "millrace/pipeline/model/optimizer.hpp"
#include "millrace/pipeline/schedule/pipeline_kind.hpp"
#include "millrace/streamer/sink_kinds.hpp"
#include "test/support/catch.hpp"
#include "test/tools/program.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The first line of a page that begins with `beginning`; "" if there is none.
std::string line_of(const char* page, const std::string& beginning) {
  std::istringstream in{read_file(std::filesystem::path{MILLRACE_DOCS} / page)};
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(beginning)) return line;
  }
  return "";
}

}  // namespace

TEST_CASE("the page about pipelines has a picture of every pipeline, and the help names it") {
  const std::string page = read_file(std::filesystem::path{MILLRACE_DOCS} / "pipelines.md");
  const std::string help = run_program({"train", "--help"}).out;
  for (const PipelineKind kind : kPipelineKinds) {
    INFO(to_string(kind));
    const std::string name{to_string(kind)};
    CHECK_THAT(page, ContainsSubstring("(images/pipelines/" + name + ".svg)"));
    CHECK_THAT(help, ContainsSubstring(name));
  }
}

TEST_CASE("the page about sinks has a row for every kind of sink") {
  for (const SinkKind& kind : sink_kinds()) {
    INFO(kind.name);
    const std::string row = line_of("sinks.md", "| `" + std::string{kind.address} + "`");
    CHECK_THAT(row, ContainsSubstring("| " + std::string{kind.summary} + " |"));
    CHECK_THAT(row, ContainsSubstring(std::string{kind.package}));
  }
}

TEST_CASE("the page about copy strategies has a row for every strategy") {
  for (const CopyStrategyTraits& traits : kCopyStrategies) {
    CHECK(line_of("copy-strategies.md", "| `" + std::string{traits.name} + "` |") != "");
  }
}

TEST_CASE("the page about training names every optimizer") {
  const std::string row = line_of("train.md", "| `table_optimizer`");
  for (const OptimizerTraits& traits : kOptimizers) {
    CHECK_THAT(row, ContainsSubstring("`" + std::string{traits.name} + "`"));
  }
}

TEST_CASE("the schema of workloads has the keys, ranges and defaults of the parser") {
  using nlohmann::json;
  const auto schema =
      json::parse(read_file(std::filesystem::path{MILLRACE_DOCS} / "workload.schema.json"));
  const json plain{{"schema", "millrace.workload/1"},
                   {"batch_size", 1},
                   {"activations", 0},
                   {"num_float_features", 1}};
  const auto refusal = [&](const std::string& key, const json& value) -> std::string {
    json with = plain;
    with[key] = value;
    try {
      (void)experiment::Workload::parse(with.dump(), "mine.json");
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  auto with_defaults = plain;
  with_defaults.erase("num_float_features");
  with_defaults["num_unweighted_features"] = 1;
  const json read =
      json::parse(experiment::Workload::parse(with_defaults.dump(), "mine.json").to_json());
  for (const auto& [key, value] : read.items()) {
    INFO(key);
    CHECK(schema.at("properties").contains(key));
  }
  for (const auto& [key, property] : schema.at("properties").items()) {
    INFO(key);
    CHECK_THAT(refusal(key, json::array({json::array()})), ContainsSubstring(key));  // it is read
    if (property.contains("default") && key != "num_unweighted_features")
      CHECK(read.at(key) == property.at("default"));
    if (!property.contains("minimum")) continue;
    const auto most = property.at("maximum").get<double>();
    CHECK_THAT(refusal(key, property.at("minimum")), !ContainsSubstring("\"" + key + "\""));
    CHECK_THAT(refusal(key, property.at("maximum")), !ContainsSubstring("\"" + key + "\""));
    CHECK_THAT(refusal(key, most + 1), ContainsSubstring(key));
    CHECK_THAT(refusal(key, property.at("minimum").get<double>() - 1), ContainsSubstring(key));
  }
}

TEST_CASE("the page about workloads has a row for every key, and its examples are valid") {
  const std::string page = read_file(std::filesystem::path{MILLRACE_DOCS} / "workloads.md");
  std::size_t workloads = 0;
  const std::string fence = "```json\n";
  for (std::size_t at = page.find(fence); at != std::string::npos; at = page.find(fence, at)) {
    at += fence.size();
    const std::string text = page.substr(at, page.find("```", at) - at);
    INFO(text);
    CHECK_NOTHROW(experiment::Workload::parse(text, "workloads.md"));
    ++workloads;
  }
  CHECK(workloads == 4);

  experiment::Workload every = experiment::Workload::named("pr2916");
  every.parameters = every.gradients = 1;
  every.compute_ms = every.exchange_gb_per_s = 1;
  const nlohmann::json keys = nlohmann::json::parse(every.to_json());
  for (const auto& [key, value] : keys.items()) {
    INFO(key);
    CHECK(line_of("workloads.md", "| `" + key + "` |") != "");
  }
}
