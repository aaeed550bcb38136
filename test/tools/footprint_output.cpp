#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "test/support/catch.hpp"
#include "test/tools/program.hpp"

using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

namespace {

const std::vector<std::string> kSmallFootprint{
    "footprint", "--workload", "sparse_data_dist_base", "--seeds", "2",
    "--steps",   "8",          "--batch-bytes",         "64MiB"};

ProgramRun small_footprint(const std::vector<std::string>& more) {
  return run_program(joined(kSmallFootprint, more));
}
Json footprint_document(const std::vector<std::string>& more) {
  return document_of(joined(kSmallFootprint, more));
}

std::vector<std::string> printed_lines(const std::string& text) {
  std::istringstream stream{text};
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  for (const std::string& line : printed_lines(text)) {
    const auto shown =
        std::count_if(line.begin(), line.end(), [](char byte) { return (byte & 0xc0) != 0x80; });
    longest = std::max(longest, static_cast<std::size_t>(shown));
  }
  return longest;
}

}  // namespace

TEST_CASE("without arguments the tables show what each choice reserves, saves and costs") {
  const ProgramRun run = run_program({"footprint"});
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
  for (const char* const word :
       {"sparse-dist", "loop shape base", "side-stream", "in-place", "precise", "ring",
        "driver-async", "measured", "modeled", "range", "saved", "overlap", "--wide"}) {
    CHECK_THAT(run.out, ContainsSubstring(word));
  }
  CHECK(longest_line(run.out) <= 80);
  CHECK(run.out.find('\x1b') == std::string::npos);
}

TEST_CASE("the first screen has five columns of figures and three lines of advice") {
  const std::vector<std::string> lines = printed_lines(small_footprint({}).out);
  const auto row = std::ranges::find_if(
      lines, [](const std::string& line) { return line.starts_with("  in-place"); });
  REQUIRE(row != lines.end());
  std::istringstream figures{*row};
  std::vector<std::string> words{std::istream_iterator<std::string>{figures}, {}};
  std::erase(words, "to");  // a range is one column
  CHECK(words.size() == 1 + 6);
  REQUIRE(lines.size() > 4);
  const std::vector<std::string> advice(lines.end() - 3, lines.end());
  CHECK((lines.end() - 4)->empty());
  CHECK_THAT(advice[0], ContainsSubstring("torch, side-stream reserves "));
  CHECK_THAT(advice[1], ContainsSubstring("Another allocator: millrace, side-stream "));
  CHECK_THAT(advice[2],
             ContainsSubstring("Least at this speed: ") || ContainsSubstring("Other copies: "));
}

TEST_CASE("with --wide the table shows where every byte went, and the advice has reasons") {
  const ProgramRun run = run_program({"footprint", "--wide"});
  CHECK(run.exit_code == 0);
  for (const char* const word : {"79.7 GB", "−5.7 GB", "Another allocator", "costs", "why",
                                 "packing", "policy", "strand", "waits are coarse"}) {
    CHECK_THAT(run.out, ContainsSubstring(word));
  }
  CHECK(longest_line(run.out) <= 80);
}

TEST_CASE("the document has a run for each allocator and strategy, with all of its figures") {
  const Json json = footprint_document({});
  CHECK(json.at("schema") == "millrace.footprint/1");
  CHECK(json.at("device").at("name") == "virtual:h200");
  CHECK(json.at("workload").at("num_batches") == 8);
  std::set<std::pair<std::string, std::string>> rows;
  for (const Json& run : json.at("runs")) {
    rows.emplace(run.at("allocator"), run.at("strategy"));
    for (const char* const key :
         {"peak_reserved_bytes", "peak_active_bytes", "peak_allocated_bytes",
          "peak_requested_bytes", "utilization", "h2d_hidden"}) {
      CHECK(run.at(key).is_number());
    }
    CHECK(run.at("step_time_us").at("p50") <= run.at("step_time_us").at("p90"));
    CHECK(run.at("device_calls").at("launch") > 10);
    CHECK(run.contains("stranded_peak_bytes"));
    CHECK(run.contains("external_fragmentation"));
    CHECK(run.at("figures").at("step_time_us") == "modeled");
    CHECK(run.at("figures").at("device_calls") == "measured");
    const bool pool = run.at("allocator") == "driver" || run.at("strategy") == "driver-async";
    CHECK(run.at("figures").at("bytes") == (pool ? "modeled" : "measured"));
    CHECK(run.at("seeds").size() == 2);
  }
  CHECK(rows.size() == 15);
}

TEST_CASE("levels ascend from requested to reserved bytes") {
  for (const Json& run : footprint_document({}).at("runs")) {
    INFO(run.at("allocator") << ' ' << run.at("strategy"));
    const Json& ladder = run.at("ladder");
    CHECK(ladder.at("l0") <= ladder.at("l1"));
    CHECK(ladder.at("l1") <= ladder.at("l2"));
    CHECK(ladder.at("l2") <= ladder.at("l3"));
    CHECK(ladder.at("l3") <= ladder.at("reserved"));
    CHECK(ladder.at("reserved") == run.at("peak_reserved_bytes"));
    CHECK(ladder.at("l0") == run.at("peak_requested_bytes"));
    CHECK(run.at("peak_requested_bytes") <= run.at("peak_allocated_bytes"));
    CHECK(run.at("peak_allocated_bytes") <= run.at("peak_active_bytes"));
    CHECK(run.at("peak_active_bytes") <= run.at("peak_reserved_bytes"));
    CHECK(run.at("utilization") > 0);
    CHECK(run.at("utilization") <= 1);
    const Json& steps = ladder.at("steps");
    std::size_t sum = ladder.at("l0");
    for (const Json& step : steps) sum += step.get<std::size_t>();
    CHECK(sum == ladder.at("reserved"));
  }
}

TEST_CASE("no run has a race") {
  for (const char* const workload : {"sparse_data_dist_base", "train_pipeline_base"}) {
    for (const char* const waits : {"coarse", "precise"}) {
      for (const Json& run :
           footprint_document({"--workload", workload, "--waits", waits}).at("runs")) {
        INFO(workload << ' ' << waits << ' ' << run.at("allocator") << ' ' << run.at("strategy"));
        CHECK(run.at("races") == 0);
      }
    }
  }
}

TEST_CASE("footprint runs the options that were given") {
  const Json json =
      footprint_document({"--allocator", "millrace,torch", "--copy", "precise", "--waits",
                          "precise", "--activations", "512MiB", "--compute-to-copy", "0.5",
                          "--run-ahead", "7", "--seed", "3", "--device", "virtual:a100"});
  CHECK(json.at("runs").size() == 2);
  CHECK(json.at("device").at("name") == "virtual:a100");
  CHECK(json.at("options").at("waits") == "precise");
  CHECK(json.at("options").at("seed") == 3);
  CHECK(json.at("workload").at("activations") == 512 << 20);
  CHECK(json.at("workload").at("compute_to_copy") == 0.5);
  CHECK(json.at("workload").at("run_ahead") == 7);
  const double batch = json.at("workload").at("mean_batch_bytes");
  CHECK(batch == Approx(64 << 20).epsilon(0.001));
}

TEST_CASE("a user's own workload runs with its own sizes") {
  const ScratchFolder folder;
  const auto file = folder.write("mine.json", R"({"schema": "millrace.workload/1", "shape": "base",
      "batch_size": 1000, "num_unweighted_features": 4, "feature_pooling_avg": 20,
      "activations": "64MiB", "num_batches": 6})");
  const ProgramRun run =
      run_program({"footprint", "--workload", file.string(), "--format", "json"});
  REQUIRE(run.exit_code == 0);
  const Json json = Json::parse(run.out);
  CHECK(json.at("workload").at("name") == "mine");
  CHECK(json.at("workload").at("batch_size") == 1000);
  CHECK(json.at("workload").at("shape") == "base");
  CHECK(json.at("runs").size() == 15);
}

TEST_CASE("the same arguments give the same document, byte for byte") {
  CHECK(small_footprint({"--format", "json"}).out == small_footprint({"--format", "json"}).out);
  CHECK(small_footprint({"--format", "json"}).out !=
        small_footprint({"--format", "json", "--seed", "9"}).out);
}

TEST_CASE("a row that runs out of memory says why, and the other rows continue") {
  const Json json =
      footprint_document({"--device", "virtual:a100", "--activations", "50GiB", "--allocator",
                          "torch,driver", "--copy", "side-stream,in-place"});
  REQUIRE(json.at("runs").size() == 4);
  for (const Json& run : json.at("runs")) {
    CHECK(run.contains("error") == (run.at("allocator") == "driver"));
    if (!run.contains("error")) continue;
    CHECK_THAT(run.at("error").get<std::string>(), ContainsSubstring("out of memory"));
    CHECK_FALSE(run.contains("peak_reserved_bytes"));
  }
  const ProgramRun table = small_footprint({"--device", "virtual:a100", "--activations", "90GiB"});
  CHECK_THAT(table.out, ContainsSubstring("out of memory"));
  CHECK(longest_line(table.out) <= 80);
}

TEST_CASE("an output file replaces the old file completely") {
  const ScratchFolder folder;
  const auto file = folder.write("out.json", std::string(1'000'000, 'x'));
  const ProgramRun run = small_footprint({"--format", "json", "-o", file.string()});
  CHECK(run.exit_code == 0);
  CHECK(run.out.empty());
  CHECK(read_file(file) == small_footprint({"--format", "json"}).out);
  CHECK(folder.names() == std::vector<std::string>{"out.json"});
}

TEST_CASE("output can go to a device and to standard output") {
  CHECK(small_footprint({"-o", "/dev/null"}).exit_code == 0);
  CHECK_THAT(small_footprint({"-o", "-"}).out, ContainsSubstring("side-stream"));
}
