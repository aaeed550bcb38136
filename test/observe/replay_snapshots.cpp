#include <algorithm>
#include <string>

#include "millrace/memory/out_of_memory.hpp"
#include "millrace/observe/replay.hpp"
#include "millrace/observe/trace/read_trace.hpp"
#include "test/observe/torch_program.hpp"
#include "test/support/catch.hpp"
#include "test/support/pickle_writer.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using test::MiB;
using test::TorchProgram;

namespace {

constexpr int kPrograms = 20;

trace::AllocationLog snapshot_log_of(const json& snapshot) {
  return trace::parse_trace(test::to_pickle(snapshot), "snapshot.pickle");
}

/// Checks that all figures agree on the live bytes and that no layout is smaller than the packing.
void check_bounds(const ReplayReport& report) {
  CHECK(report.ladder.requested == report.load);
  CHECK(report.load <= report.packed);
  CHECK(report.packed <= report.ladder.packed);
  CHECK(report.ladder.packed <= report.ladder.reserved);
}

void check_same_replay(const trace::AllocationLog& log) {
  const ReplayReport report = replay(log, 0, {});
  REQUIRE(report.decisions.has_value());
  INFO(report.decisions->first_difference);
  CHECK(report.decisions->same == report.decisions->total);
  CHECK(report.decisions->total == report.allocations);
  CHECK(report.decisions->segments_same == report.decisions->segments_total);
  CHECK(report.recorded_peak == report.statistics.bytes.reserved.peak);
  check_bounds(report);
}

/// Calls `check` with programs of several seeds.
template <typename Check>
void over_programs(const TorchProgram::Options& options, const Check& check) {
  for (int i = 0; i < kPrograms; ++i) {
    const std::uint64_t seed = test::seed() + static_cast<std::uint64_t>(i);
    INFO("program of seed " << seed);
    TorchProgram program{seed, options};
    check(program);
  }
}

std::string warnings_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

json block(std::uint64_t address, std::uint64_t bytes, const char* state) {
  return {{"address", address}, {"size", bytes}, {"requested_size", bytes}, {"state", state}};
}

json large_segment(std::uint64_t base, int stream, const std::vector<json>& blocks) {
  std::uint64_t bytes = 0;
  for (const json& each : blocks) bytes += each["size"].get<std::uint64_t>();
  return {{"device", 0},      {"address", base},         {"total_size", bytes},
          {"stream", stream}, {"segment_type", "large"}, {"blocks", blocks}};
}

json snapshot_event(const char* action, std::uint64_t address, std::uint64_t bytes) {
  return {{"action", action}, {"addr", address}, {"size", bytes}, {"stream", 0}, {"time_us", 1}};
}

}  // namespace

TEST_CASE("programs with streams, pending frees and private pools are replayed as recorded") {
  over_programs({}, [](TorchProgram& program) {
    program.run(300);
    const json snapshot = program.snapshot(true);
    check_same_replay(snapshot_log_of(snapshot));
  });
}

TEST_CASE("a private pool is read from the snapshot if events do not name it") {
  // The pool of a segment that is given back within the trace is unknown. The test skips programs
  // with such segments.
  for (int i = 0, found = 0; found < 5; ++i) {
    TorchProgram program{test::seed() + static_cast<std::uint64_t>(i), {}};
    program.run(60);
    const auto& events = program.events();
    if (std::ranges::any_of(events, [](const trace::TorchEvent& event) {
          return event.action == trace::TorchAction::segment_free;
        })) {
      continue;
    }
    ++found;
    check_same_replay(snapshot_log_of(program.snapshot(false)));
  }
}

TEST_CASE("a trace that begins in the middle is replayed as recorded") {
  over_programs({.settings = {}, .largest = MiB}, [](TorchProgram& program) {
    program.run(150);
    program.forget();
    program.run(150);
    check_same_replay(snapshot_log_of(program.snapshot(true)));
  });
}

TEST_CASE("a replay follows the settings that decide sizes") {
  TorchProgram::Options options;
  options.settings.roundup_power2_divisions = {4, 8, 0, 2, 16};
  std::fill(options.settings.roundup_power2_divisions.begin() + 5,
            options.settings.roundup_power2_divisions.end(), 4);
  if (GENERATE(true, false)) options.settings.max_split_size = 12 * MiB;
  over_programs(options, [](TorchProgram& program) {
    program.run(200);
    check_same_replay(snapshot_log_of(program.snapshot(true)));
  });
}

TEST_CASE("without completions in a trace, each free is taken as complete at once") {
  TorchProgram program{test::seed(), {}};
  json snapshot;
  do {  // until no free is pending at the end
    program.run(50);
    snapshot = program.snapshot(true);
  } while (snapshot.dump().find("awaiting") != std::string::npos);
  json& events = snapshot["device_traces"][0];
  json kept = json::array();
  for (const json& each : events) {
    if (each["action"] != "free_completed") kept.push_back(each);
  }
  events = kept;
  const trace::AllocationLog log = snapshot_log_of(snapshot);
  CHECK_THAT(warnings_of(log.warnings), ContainsSubstring("frees are taken as complete at once"));
  const ReplayReport report = replay(log, 0, {});
  CHECK(report.frees > 10);
  CHECK(report.statistics.bytes.active.current == report.statistics.bytes.allocated.current);
}

TEST_CASE("a trace without requests of frees is replayed as recorded") {
  TorchProgram program{test::seed(), {.settings = {}, .largest = MiB}};
  program.run(300);
  json snapshot = program.snapshot(true);
  json& events = snapshot["device_traces"][0];
  json kept = json::array();
  for (const json& each : events) {
    if (each["action"] != "free_requested") kept.push_back(each);
  }
  events = kept;
  const trace::AllocationLog log = snapshot_log_of(snapshot);
  check_same_replay(log);
  const ReplayReport report = replay(log, 0, {});
  CHECK(report.load == report.ladder.requested);
}

TEST_CASE("each device of a snapshot is replayed by itself") {
  TorchProgram first{test::seed(), {}};
  TorchProgram second{test::seed() + 1, {}};
  first.run(100);
  second.run(140);
  json snapshot = first.snapshot(true);
  json other = second.snapshot(true);
  for (json& segment : other["segments"]) {
    segment["device"] = 1;
    snapshot["segments"].push_back(segment);
  }
  snapshot["device_traces"].push_back(other["device_traces"][0]);
  const trace::AllocationLog log = snapshot_log_of(snapshot);
  for (const std::uint32_t device : {0U, 1U}) {
    const ReplayReport report = replay(log, device, {});
    INFO("device " << device << ": " << report.decisions->first_difference);
    CHECK(report.decisions->same == report.decisions->total);
    CHECK(report.decisions->total > 20);
  }
}

TEST_CASE("expandable segments are compared only if their pages are PyTorch's") {
  const std::uint64_t base = std::uint64_t{1} << 40;
  json snapshot = TorchProgram{test::seed(), {}}.snapshot();
  snapshot["allocator_settings"]["expandable_segments"] = true;
  snapshot["segments"] = json::array({{{"device", 0},
                                       {"address", base},
                                       {"total_size", 40 * MiB},
                                       {"stream", 0},
                                       {"segment_type", "large"},
                                       {"is_expandable", true},
                                       {"blocks", json::array({{{"address", base},
                                                                {"size", 8 * MiB},
                                                                {"requested_size", 8 * MiB},
                                                                {"state", "active_allocated"}},
                                                               {{"address", base + 8 * MiB},
                                                                {"size", 32 * MiB},
                                                                {"state", "inactive"}}})}}});
  snapshot["device_traces"][0] = {snapshot_event("segment_map", base + 20 * MiB, 20 * MiB),
                                  snapshot_event("alloc", base + 8 * MiB, 30 * MiB),
                                  snapshot_event("free_requested", base + 8 * MiB, 30 * MiB),
                                  snapshot_event("free_completed", base + 8 * MiB, 30 * MiB)};
  const ReplayReport report = replay(snapshot_log_of(snapshot), 0, {});
  CHECK(report.load == 38 * MiB);
  CHECK(report.recorded_peak == 40 * MiB);
  CHECK(report.decisions->total == 1);
  CHECK(report.decisions->same == 1);
  CHECK(report.decisions->segments_total == 1);
  CHECK(report.decisions->segments_same == 1);
  CHECK(report.statistics.bytes.reserved.peak == 40 * MiB);
  CHECK(report.warnings.empty());

  snapshot["device_traces"][0][0] = snapshot_event("segment_map", base + 21 * MiB, 19 * MiB);
  const ReplayReport other = replay(snapshot_log_of(snapshot), 0, {});
  CHECK(other.decisions->total == 0);
  CHECK(other.decisions->segments_total == 0);
  CHECK(other.recorded_peak == 40 * MiB);
  CHECK(other.statistics.bytes.reserved.peak >= other.load);
  CHECK_THAT(warnings_of(other.warnings), ContainsSubstring("2 blocks of expandable segments"));
}

TEST_CASE("a block whose free is pending at the start of the trace serves others once complete") {
  const std::uint64_t base = std::uint64_t{1} << 40;
  json snapshot = TorchProgram{test::seed(), {}}.snapshot();
  snapshot["segments"] =
      json::array({{{"device", 0},
                    {"address", base},
                    {"total_size", 20 * MiB},
                    {"stream", 0},
                    {"segment_type", "large"},
                    {"blocks", json::array({{{"address", base},
                                             {"size", 20 * MiB},
                                             {"requested_size", 19 * MiB + MiB / 2},
                                             {"state", "active_allocated"}}})}}});
  snapshot["device_traces"][0] = {snapshot_event("free_completed", base, 20 * MiB),
                                  snapshot_event("alloc", base, 19 * MiB + MiB / 2)};
  check_same_replay(snapshot_log_of(snapshot));
}

TEST_CASE("a block that the program freed before the trace is not among the requests") {
  const std::uint64_t base = std::uint64_t{1} << 40;
  json snapshot = TorchProgram{test::seed(), {}}.snapshot();
  snapshot["segments"] = json::array({large_segment(
      base, 0,
      {block(base, 12 * MiB, "inactive"), block(base + 12 * MiB, 20 * MiB, "active_allocated")})});
  snapshot["device_traces"][0] = {snapshot_event("free_completed", base, 12 * MiB),
                                  snapshot_event("alloc", base + 12 * MiB, 20 * MiB)};
  for (const Policy& policy : {Policy::torch(), Policy::millrace()}) {
    for (const ReplayStart start : {ReplayStart::recorded, ReplayStart::live_blocks}) {
      const ReplayReport report =
          replay(snapshot_log_of(snapshot), 0, {.policy = policy, .start = start});
      INFO(policy.name << ", " << to_string(start));
      CHECK(report.load == 20 * MiB);
      CHECK(report.start_reserved >= 12 * MiB);
      check_bounds(report);
    }
  }
}

TEST_CASE("a free that completes while PyTorch retries does not serve the request that waited") {
  const std::uint64_t base = std::uint64_t{1} << 40;
  const std::uint64_t released = base + 1024 * MiB;
  const std::uint64_t taken = base + 2048 * MiB;
  json snapshot = TorchProgram{test::seed(), {}}.snapshot();
  snapshot["segments"] =
      json::array({large_segment(base, 0,
                                 {block(base, 12 * MiB, "active_allocated"),
                                  block(base + 12 * MiB, 20 * MiB, "active_allocated")}),
                   large_segment(taken, 0, {block(taken, 12 * MiB, "active_allocated")})});
  json other_stream = snapshot_event("segment_free", released, 24 * MiB);
  other_stream["stream"] = 1;
  // The device is full, and the cache of stream 0 has no 12 MiB. PyTorch waits for the pending
  // block, gives back a segment of another stream, and takes a new segment nevertheless.
  snapshot["device_traces"][0] = {snapshot_event("free_completed", base, 12 * MiB), other_stream,
                                  snapshot_event("segment_alloc", taken, 12 * MiB),
                                  snapshot_event("alloc", taken, 12 * MiB),
                                  snapshot_event("alloc", base, 12 * MiB)};
  check_same_replay(snapshot_log_of(snapshot));
}

TEST_CASE("blocks in no known segment are left out of the comparison") {
  const std::uint64_t base = std::uint64_t{1} << 40;
  json snapshot = TorchProgram{test::seed(), {}}.snapshot();
  snapshot["segments"] = json::array({{{"device", 0},
                                       {"address", base},
                                       {"total_size", 2 * MiB},
                                       {"stream", 0},
                                       {"segment_type", "small"},
                                       {"blocks", json::array({{{"address", base},
                                                                {"size", 512},
                                                                {"requested_size", 512},
                                                                {"state", "active_allocated"}},
                                                               {{"address", base + 512},
                                                                {"size", 2 * MiB - 512},
                                                                {"state", "inactive"}}})}}});
  snapshot["device_traces"][0] = {snapshot_event("alloc", base + 64 * MiB, 512),
                                  snapshot_event("alloc", base, 512)};
  const trace::AllocationLog log = snapshot_log_of(snapshot);
  CHECK_THAT(warnings_of(log.warnings), ContainsSubstring("0x"));
  const ReplayReport report = replay(log, 0, {});
  CHECK(report.decisions->same == 1);
  CHECK(report.decisions->total == 1);
  CHECK_THAT(warnings_of(report.warnings), ContainsSubstring("in no known segment"));
}

TEST_CASE("a request that PyTorch could not serve is reported") {
  json snapshot = TorchProgram{test::seed(), {}}.snapshot();
  snapshot["device_traces"][0] = json::array(
      {{{"action", "oom"}, {"device_free", 4096}, {"size", 9000}, {"stream", 0}, {"time_us", 1}}});
  const ReplayReport report = replay(snapshot_log_of(snapshot), 0, {});
  CHECK_THAT(warnings_of(report.warnings),
             ContainsSubstring("ran out of memory 1 time") && ContainsSubstring("9000 bytes"));
  CHECK(report.allocations == 0);
}

TEST_CASE("a snapshot without a recorded history has no events, and says how to record") {
  json snapshot = TorchProgram{test::seed(), {}}.snapshot();
  snapshot["device_traces"] = json::array({json::array()});
  const trace::AllocationLog log = snapshot_log_of(snapshot);
  CHECK(log.events.empty());
  CHECK_THAT(warnings_of(log.warnings), ContainsSubstring("_record_memory_history"));
}

TEST_CASE("other policies treat blocks of private pools as any others, with a warning") {
  TorchProgram program{test::seed(), {}};
  program.run(100);
  const ReplayReport report =
      replay(snapshot_log_of(program.snapshot(true)), 0, {.policy = Policy::millrace()});
  CHECK_FALSE(report.decisions.has_value());
  CHECK(report.statistics.bytes.reserved.peak >= report.load);
  CHECK_THAT(warnings_of(report.warnings), ContainsSubstring("private pools"));
}

TEST_CASE("a trace that asks for more than any device has is refused as out of memory") {
  json snapshot = TorchProgram{test::seed(), {}}.snapshot();
  snapshot["device_traces"][0] =
      json::array({snapshot_event("alloc", std::uint64_t{1} << 40, std::uint64_t{1} << 47)});
  CHECK_THROWS_AS(replay(snapshot_log_of(snapshot), 0, {}), out_of_memory);
}
