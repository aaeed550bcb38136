#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "test/support/catch.hpp"
#include "test/tools/program.hpp"

using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

namespace {

std::vector<std::string> one_row(const std::string& allocator, const std::string& strategy,
                                 const std::vector<std::string>& more) {
  return joined({"footprint", "--workload", "sparse_data_dist_base", "--allocator", allocator,
                 "--copy", strategy, "--seeds", "2", "--steps", "8", "--batch-bytes", "64MiB"},
                more);
}

struct Contents {
  std::map<std::string, std::size_t> counts;  ///< events by name
  std::set<std::string> tracks;
};

Contents contents_of(const Json& timeline) {
  Contents contents;
  for (const Json& event : timeline.at("traceEvents")) {
    ++contents.counts[event.at("name")];
    if (event.at("name") == "thread_name") contents.tracks.insert(event.at("args").at("name"));
  }
  return contents;
}

}  // namespace

TEST_CASE("a timeline of a row has its run and does not change the table") {
  const ScratchFolder folder;
  const std::string file = (folder / "run.json").string();
  const ProgramRun plain = run_program(one_row("torch", "side-stream", {"--seed", "5"}));
  const ProgramRun run =
      run_program(one_row("torch", "side-stream", {"--seed", "5", "--timeline", file}));
  REQUIRE(run.exit_code == 0);
  CHECK(run.out == plain.out);
  CHECK(run.err.empty());
  CHECK(folder.names() == std::vector<std::string>{"run.json"});

  const Json json = Json::parse(read_file(file));
  const Json& facts = json.at("otherData");
  CHECK(facts.at("device") == "virtual:h200");
  CHECK(facts.at("times") == "modeled");
  CHECK(facts.at("seed") == "5");
  CHECK(facts.at("allocator") == "torch");
  CHECK(facts.at("strategy") == "side-stream");
  CHECK(facts.at("workload") == "sparse_data_dist_base");
  CHECK(facts.at("events_left_out") == 0);

  auto [counts, tracks] = contents_of(json);
  CHECK(counts["optimizer"] == 2 * 8);  // per step, on its stream and on its engine
  CHECK(counts["stranded"] > 0);
  for (const char* const track : {"main", "copy", "data-dist", "compute", "host to device"}) {
    CHECK(tracks.contains(track));
  }
}

TEST_CASE("every allocator and strategy has a timeline with the table's reserved peak") {
  const std::string allocator = GENERATE("torch", "millrace", "driver");
  const std::string strategy =
      GENERATE("side-stream", "in-place", "precise", "ring", "driver-async");
  const ScratchFolder folder;
  const std::string file = (folder / "run.json").string();
  const ProgramRun run = run_program(
      one_row(allocator, strategy, {"--seeds", "1", "--format", "json", "--timeline", file}));
  REQUIRE(run.exit_code == 0);
  const Json timeline = Json::parse(read_file(file));
  std::map<int, std::size_t> peaks;
  for (const Json& event : timeline.at("traceEvents")) {
    if (event.at("ph") != "C" || event.at("name") != "reserved") continue;
    std::size_t& peak = peaks[event.at("pid")];
    peak = std::max(peak, event.at("args").at("bytes").get<std::size_t>());
  }
  const bool two = strategy == "driver-async" && allocator != "driver";
  REQUIRE(peaks.size() == (two ? 2 : 1));
  if (!two && allocator != "driver") {
    CHECK(peaks.begin()->second == Json::parse(run.out).at("runs").at(0).at("peak_reserved_bytes"));
  }
}

TEST_CASE("a timeline shows at least the stranded peak of the document") {
  const std::string allocator = GENERATE("torch", "millrace");
  const std::string strategy = GENERATE("side-stream", "in-place", "precise", "ring");
  const ScratchFolder folder;
  const std::string file = (folder / "run.json").string();
  const ProgramRun run = run_program(
      one_row(allocator, strategy, {"--seeds", "1", "--format", "json", "--timeline", file}));
  REQUIRE(run.exit_code == 0);
  std::size_t peak = 0;
  const Json timeline = Json::parse(read_file(file));
  for (const Json& event : timeline.at("traceEvents")) {
    if (event.at("ph") != "C" || event.at("name") != "stranded") continue;
    peak = std::max(peak, event.at("args").at("bytes").get<std::size_t>());
  }
  INFO(allocator << ' ' << strategy);
  const Json json = Json::parse(run.out);
  CHECK(peak >= json.at("runs").at(0).at("stranded_peak_bytes").get<std::size_t>());
}

TEST_CASE("the same seed gives the same timeline, another seed gives another") {
  const ScratchFolder folder;
  const auto timeline = [&](const std::string& seed) {
    const std::string file = (folder / "run.json").string();
    const ProgramRun run =
        run_program(one_row("millrace", "in-place", {"--seed", seed, "--timeline", file}));
    CHECK(run.exit_code == 0);
    return read_file(file);
  };
  const std::string first = timeline("3");
  CHECK(first.size() > 100'000);
  CHECK(timeline("3") == first);
  CHECK(timeline("4") != first);
}

TEST_CASE("a timeline of several rows is refused with arguments for one row") {
  const ScratchFolder folder;
  const std::string file = (folder / "run.json").string();
  const ProgramRun all = run_program({"footprint", "--timeline", file});
  CHECK(all.exit_code == 2);
  CHECK_THAT(all.err, ContainsSubstring("30 rows") && ContainsSubstring("where: --timeline") &&
                          ContainsSubstring("--workload sparse_data_dist_base --allocator torch "
                                            "--copy side-stream"));
  CHECK(run_program(one_row("torch,millrace", "ring", {"--timeline", file})).exit_code == 2);
  CHECK(folder.names().empty());
}

TEST_CASE("a timeline that cannot be written is refused before anything runs") {
  const ScratchFolder folder;
  const auto said = [&](std::vector<std::string> more) {
    const ProgramRun run = run_program(one_row("torch", "ring", more));
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK_THAT(run.err, ContainsSubstring("where: --timeline"));
    return run.err;
  };
  said({"--timeline", (folder / "none" / "x").string()});
  CHECK_THAT(said({"--timeline", (folder / "").string()}), ContainsSubstring("it is a folder"));
  CHECK_THAT(said({"--timeline", "-"}), ContainsSubstring("a file of its own"));
  const std::string file = (folder / "both").string();
  CHECK_THAT(said({"--timeline", file, "-o", file}), ContainsSubstring("a file of its own"));
  CHECK(folder.names().empty());
}

namespace {

std::vector<std::string> training(const std::string& file, const std::vector<std::string>& more) {
  return joined({"train", "--data", "synthetic", "--examples", "300", "--epochs", "1",
                 "--batch-size", "64", "--timeline", file},
                more);
}

}  // namespace

TEST_CASE("train: a timeline has every step of the run, its streams and reserved bytes") {
  const ScratchFolder folder;
  const std::string file = (folder / "run.json").string();
  const std::string pipeline = GENERATE("base", "sparse-dist", "sparse-dist-lite");
  const std::string copy = GENERATE("side-stream", "driver-async");
  const ProgramRun run = run_program(training(
      file, {"--pipeline", pipeline, "--copy", copy, "--waits", "precise", "--seed", "7"}));
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, ContainsSubstring("timeline " + file + ": all"));
  const Json json = Json::parse(read_file(file));
  const Json& facts = json.at("otherData");
  CHECK(facts.at("program") == "millrace train");
  CHECK(facts.at("loop") == pipeline);
  CHECK(facts.at("strategy") == copy);
  CHECK(facts.at("waits") == "precise");
  CHECK(facts.at("seed") == "7");
  CHECK(facts.at("events_left_out") == 0);
  auto [counts, tracks] = contents_of(json);
  CHECK(counts["loss"] > 0);
  CHECK(counts["update tables"] == 2 * 2 * 5);  // stream and engine; two kinds of bags, five steps
  CHECK(counts["reserved"] > 0);
  CHECK(counts["stranded"] > 0);
  for (const char* const track : {"main", "copy", "loader", "compute", "host to device"}) {
    CHECK(tracks.contains(track));
  }
}

TEST_CASE("train: a timeline changes no weight, and the same run has the same timeline") {
  const ScratchFolder folder;
  const std::string file = (folder / "run.json").string(), results = (folder / "json").string();
  const auto digest = [&](const std::vector<std::string>& arguments) {
    REQUIRE(run_program(arguments).exit_code == 0);
    return Json::parse(read_file(results)).at("weights_digest").get<std::string>();
  };
  const std::string recorded = digest(training(file, {"--json", results}));
  const std::string first = read_file(file);
  std::vector<std::string> plain = training(file, {"--json", results});
  plain.erase(plain.end() - 4, plain.end() - 2);
  CHECK(digest(plain) == recorded);
  CHECK(read_file(file) == first);
  CHECK(digest(training(file, {"--json", results})) == recorded);
  CHECK(read_file(file) == first);
}

TEST_CASE("train: a timeline without its own file is refused before anything runs") {
  const ScratchFolder folder;
  const auto said = [&](const std::string& file, const std::vector<std::string>& more) {
    const ProgramRun run = run_program(training(file, more));
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK_THAT(run.err, ContainsSubstring("--timeline"));
    return run.err;
  };
  said((folder / "none" / "x").string(), {});
  CHECK_THAT(said("-", {}), ContainsSubstring("a file of its own"));
  const std::string file = (folder / "both").string();
  CHECK_THAT(said(file, {"--json", file}), ContainsSubstring("a file of its own"));
  CHECK_THAT(said(file, {"--save", file}), ContainsSubstring("a file of its own"));
  CHECK(folder.names().empty());
}
