#include <cstdint>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "millrace/observe/trace/read_trace.hpp"
#include "millrace/observe/trace/write_snapshot.hpp"
#include "test/support/catch.hpp"
#include "test/support/scratch_folder.hpp"
#include "test/support/snapshot_figures.hpp"
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

TEST_CASE("the trace of a footprint run has the run's reserved bytes exactly") {
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
  CHECK_THAT(run.out, !ContainsSubstring("default"));  // every stream of the run has a name
}

TEST_CASE("a trace of several rows is refused") {
  const ScratchFolder folder;
  const std::string file = (folder / "run.trace").string();
  const ProgramRun rows = run_program(recorded_run("torch", "all", {"--record", file}));
  CHECK(rows.exit_code == 2);
  CHECK_THAT(rows.err, ContainsSubstring("a trace shows one run, but this command runs") &&
                           ContainsSubstring("--record"));
  CHECK(folder.names().empty());
}

TEST_CASE("the trace of a training has the training's reserved bytes") {
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

namespace {

millrace::trace::TorchSnapshot snapshot_in(const std::string& file) {
  return whole_snapshot(millrace::trace::read_trace(file));
}

}  // namespace

TEST_CASE("the snapshot of a footprint run has its bytes and its tags") {
  for (const char* const allocator : {"torch", "millrace"}) {
    const ScratchFolder folder;
    const std::string file = (folder / "run.pickle").string(), trace = (folder / "trace").string();
    CAPTURE(allocator);
    const auto table = document_of(
        recorded_run(allocator, "side-stream", {"--snapshot", file, "--record", trace}));
    const auto snapshot = snapshot_in(file);
    const SnapshotFigures figures{snapshot};
    CHECK(figures.held == figures.reserved);
    CHECK(figures.peak == table.at("runs").at(0).at("peak_reserved_bytes"));
    CHECK(figures.labels.contains("activations"));
    const auto replay = document_of({"replay", trace}).at("files").at(0).at("replays").at(0);
    CHECK(figures.allocations == replay.at("allocations"));
  }
}

TEST_CASE("the segments of a snapshot have the streams of their blocks") {
  const ScratchFolder folder;
  const std::string file = (folder / "run.pickle").string();
  REQUIRE(run_program(recorded_run("torch", "side-stream", {"--snapshot", file})).exit_code == 0);
  const auto snapshot = snapshot_in(file);
  std::map<std::int64_t, std::size_t> segments;                          // by stream
  std::map<std::uint64_t, std::pair<std::uint64_t, std::int64_t>> held;  // by address: end, stream
  using millrace::trace::TorchAction;
  for (const auto& event : snapshot.traces.at(0)) {
    CHECK(event.action != TorchAction::segment_map);  // this allocator has no expandable segments
    if (event.action == TorchAction::segment_alloc) {
      ++segments[event.stream];
      held[event.address] = {event.address + event.bytes, event.stream};
    } else if (event.action == TorchAction::segment_free) {
      held.erase(event.address);
    } else if (event.action == TorchAction::alloc) {
      const auto segment = std::prev(held.upper_bound(event.address))->second;
      REQUIRE(event.address + event.bytes <= segment.first);
      CHECK(event.stream == segment.second);
    }
  }
  CHECK(segments.size() == 3);
  CHECK(segments.contains(0));  // main
  CHECK_FALSE(snapshot.settings.expandable_segments);
  for (const auto& segment : snapshot.segments) {
    CHECK(segment.stream == held.at(segment.address).second);
    CHECK_FALSE(segment.expandable);
  }
}

TEST_CASE("the snapshot of a training has its bytes and its tags") {
  const ScratchFolder folder;
  const std::string file = (folder / "train.pickle").string();
  const auto result = document_of(
      {"train", "--data", "synthetic", "--steps", "12", "--pipeline", "base", "--snapshot", file},
      {"--json", "-"});
  const SnapshotFigures figures{snapshot_in(file)};
  CHECK(figures.held == figures.reserved);
  CHECK(figures.peak == result.at("memory").at("bytes").at("reserved").at("peak"));
  CHECK(figures.labels.size() > 1);
}

namespace {

/// The names of the annotations, in order, each with "begins" or "ends".
std::vector<std::string> annotations(const millrace::trace::TorchSnapshot& snapshot) {
  std::vector<std::string> names;
  for (const auto& mark : snapshot.marks)
    names.push_back(snapshot.labels.at(mark.name) + (mark.begins ? " begins" : " ends"));
  return names;
}

}  // namespace

TEST_CASE("the snapshots of footprint and train have their steps as annotations") {
  const ScratchFolder folder;
  const std::string loop = (folder / "run.pickle").string(),
                    training = (folder / "train.pickle").string();
  REQUIRE(run_program(recorded_run("torch", "side-stream", {"--snapshot", loop})).exit_code == 0);
  REQUIRE(run_program({"train", "--data", "synthetic", "--steps", "6", "--pipeline", "base",
                       "--snapshot", training})
              .exit_code == 0);
  for (const std::string& file : {loop, training}) {
    CAPTURE(file);
    const auto snapshot = snapshot_in(file);
    const std::vector<std::string> names = annotations(snapshot);
    REQUIRE(names.size() == 14);  // six steps and the end
    CHECK(names.front() == "step 1 begins");
    CHECK(names.at(2) == "step 2 begins");
    CHECK(names.back() == "end ends");
    CHECK(snapshot.marks.back().time_us <= snapshot.traces.at(0).back().time_us);
    CHECK(snapshot.of_millrace);
  }
}

TEST_CASE("the snapshot of a replay has the annotations and the stacks of the recorded program") {
  const ScratchFolder folder;
  const std::string file = (folder / "replay.pickle").string();
  nlohmann::json event{
      {"action", "alloc"}, {"addr", 1 << 20}, {"size", 4096}, {"stream", 0}, {"time_us", 10}};
  event["frames"] = {{{"filename", "train.py"}, {"line", 3}, {"name", "step"}}};
  const nlohmann::json first = event;
  event["addr"] = 2 << 20;
  event["time_us"] = 30;
  const auto mark = [](const char* stage, int time) {
    return nlohmann::json{{"name", "forward"}, {"stage", stage}, {"device", 0}, {"time_us", time}};
  };
  const nlohmann::json recorded{{"segments", nlohmann::json::array()},
                                {"device_traces", {{first, event}}},
                                {"external_annotations", {mark("START", 20), mark("END", 40)}}};
  const std::string trace = folder.write("trace.json", recorded.dump()).string();
  REQUIRE(run_program({"replay", "--allocator", "millrace", "--snapshot", file, trace}).exit_code ==
          0);
  const auto snapshot = snapshot_in(file);
  CHECK(annotations(snapshot) == std::vector<std::string>{"forward begins", "forward ends"});
  std::vector<std::int64_t> times;
  for (const auto& each : snapshot.traces.at(0)) {
    if (each.action != millrace::trace::TorchAction::alloc) continue;
    times.push_back(each.time_us);
    CHECK(snapshot.stacks.frames_of(each.stack).size() == 1);
  }
  REQUIRE(times.size() == 2);
  CHECK(snapshot.marks.at(0).time_us >= times[0]);
  CHECK(snapshot.marks.at(0).time_us < times[1]);
  CHECK(snapshot.marks.at(1).time_us >= times[1]);
}

TEST_CASE("the snapshot of a replay has the labels of the trace") {
  const ScratchFolder folder;
  const std::string trace = (folder / "run.trace").string();
  const std::string file = (folder / "replay.pickle").string();
  REQUIRE(run_program(recorded_run("torch", "side-stream", {"--record", trace})).exit_code == 0);
  const auto replay = document_of({"replay", "--allocator", "millrace", "--snapshot", file, trace});
  const auto& report = replay.at("files").at(0).at("replays").at(0);
  const SnapshotFigures figures{snapshot_in(file)};
  CHECK(figures.held == figures.reserved);
  CHECK(figures.peak == report.at("statistics").at("bytes").at("reserved").at("peak"));
  CHECK(figures.allocations == report.at("allocations"));
  CHECK(figures.labels.contains("activations"));
}
