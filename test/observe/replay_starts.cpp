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
using nlohmann::json;
using test::MiB;
using test::TorchProgram;

namespace {

constexpr std::uint64_t kStartsBase = std::uint64_t{1} << 40;
constexpr std::uint64_t kOther = kStartsBase + 1024 * MiB;
constexpr std::uint64_t kThird = kStartsBase + 2048 * MiB;

trace::AllocationLog log_of(const json& snapshot) {
  return trace::parse_trace(test::to_pickle(snapshot), "snapshot.pickle");
}

json starts_event(const char* action, std::uint64_t address, std::uint64_t bytes) {
  return {{"action", action}, {"addr", address}, {"size", bytes}, {"stream", 0}, {"time_us", 1}};
}

/// Events of a block with its own segment, which is allocated and freed.
json used(std::uint64_t address, std::uint64_t bytes) {
  return json::array({starts_event("segment_alloc", address, bytes),
                      starts_event("alloc", address, bytes),
                      starts_event("free_requested", address, bytes),
                      starts_event("free_completed", address, bytes)});
}

/// A snapshot of a program with these events, which starts without memory. At its end PyTorch holds
/// one segment of `held` bytes, which is in use.
json program(const std::vector<json>& parts, std::uint64_t address, std::uint64_t held) {
  json events = json::array();
  for (const json& part : parts) {
    for (const json& each : part) events.push_back(each);
  }
  json snapshot{{"segments", json::array()}, {"device_traces", json::array({events})}};
  if (held > 0) {
    snapshot["segments"].push_back({{"device", 0},
                                    {"address", address},
                                    {"total_size", held},
                                    {"stream", 0},
                                    {"segment_type", "large"},
                                    {"segment_pool_id", {0, 0}},
                                    {"is_expandable", false},
                                    {"blocks",
                                     {{{"address", address},
                                       {"size", held},
                                       {"requested_size", held},
                                       {"state", "active_allocated"}}}}});
  }
  return snapshot;
}

json gives_back(std::uint64_t address, std::uint64_t bytes) {
  return json::array({starts_event("segment_free", address, bytes)});
}

json takes(std::uint64_t address, std::uint64_t bytes) {
  return json::array(
      {starts_event("segment_alloc", address, bytes), starts_event("alloc", address, bytes)});
}

ReplayReport cold(const trace::AllocationLog& log, const Policy& policy, std::size_t bytes = 0) {
  return replay(log, 0,
                {.policy = policy, .device_bytes = bytes, .start = ReplayStart::live_blocks});
}

}  // namespace

TEST_CASE("a replay from the live blocks alone has no cache from before the trace") {
  for (int i = 0; i < 10; ++i) {
    const std::uint64_t seed = test::seed() + static_cast<std::uint64_t>(i);
    INFO("program of seed " << seed);
    TorchProgram program{seed, {.settings = {}, .largest = MiB}};
    program.run(150);
    program.forget();
    program.run(20);
    const trace::AllocationLog log = log_of(program.snapshot(true));
    const ReplayReport recorded = replay(log, 0, {});
    CHECK(recorded.start == ReplayStart::recorded);
    CHECK(recorded.start_reserved == recorded.curve.front().recorded);
    for (const Policy& policy : {Policy::torch(), Policy::millrace()}) {
      const ReplayReport report = cold(log, policy);
      CHECK(report.start == ReplayStart::live_blocks);
      CHECK_FALSE(report.decisions.has_value());
      CHECK(report.load == recorded.load);
      CHECK(report.recorded_peak == recorded.recorded_peak);
      // Every segment of the start has a live block.
      CHECK((report.start_reserved == 0 || report.load > 0));
      CHECK(report.statistics.bytes.reserved.peak >= report.load);
    }
  }
}

TEST_CASE("a program that starts with nothing is replayed equally from either start") {
  TorchProgram program{test::seed(), {}};
  program.run(300);
  json snapshot = program.snapshot(true);
  const trace::AllocationLog log = log_of(snapshot);
  const bool gave_back = std::ranges::any_of(log.events, [](const trace::LogEvent& event) {
    return event.kind == trace::EventKind::segment_free;
  });
  if (!gave_back) {
    CHECK(cold(log, Policy::torch()).statistics.bytes.reserved.peak ==
          replay(log, 0, {}).statistics.bytes.reserved.peak);
  }
  CHECK(cold(log, Policy::torch()).start_reserved == 0);
}

TEST_CASE("a cache that the program empties is emptied in every replay") {
  const json first = takes(kStartsBase, 40 * MiB), second = takes(kOther, 60 * MiB);
  const json freed = json::array({starts_event("free_requested", kStartsBase, 40 * MiB),
                                  starts_event("free_completed", kStartsBase, 40 * MiB)});
  const json other_freed = json::array({starts_event("free_requested", kOther, 60 * MiB),
                                        starts_event("free_completed", kOther, 60 * MiB)});
  const json back = gives_back(kStartsBase, 40 * MiB), third = takes(kThird, 100 * MiB);
  const auto peak = [](const std::vector<json>& parts, const Policy& policy) {
    json snapshot = program(parts, kThird, 100 * MiB);
    json kept = snapshot["segments"][0];  // the freed segment is cached at the end
    kept["address"] = kOther;
    kept["total_size"] = 60 * MiB;
    kept["blocks"] = {{{"address", kOther}, {"size", 60 * MiB}, {"state", "inactive"}}};
    snapshot["segments"].push_back(kept);
    return cold(log_of(snapshot), policy).statistics.bytes.reserved.peak;
  };
  // The next event is a free, so the program emptied the cache. Every replay empties it as well.
  const std::vector<json> emptied{first, second, freed, back, other_freed, third};
  CHECK(peak(emptied, Policy::torch()) == 160 * MiB);
  CHECK(peak(emptied, Policy::millrace()) <= 160 * MiB);
  // The next event is a request for which PyTorch takes a segment. So PyTorch emptied the cache in
  // a retry of that request, which a replay does not repeat.
  const std::vector<json> retried{first, second, freed, other_freed, back, third};
  CHECK(peak(retried, Policy::torch()) == 200 * MiB);
}

TEST_CASE("the size of the device is taken from PyTorch's out-of-memory event") {
  json ran_out = program({takes(kStartsBase, 40 * MiB)}, kStartsBase, 40 * MiB);
  ran_out["device_traces"][0].push_back({{"action", "oom"},
                                         {"device_free", 7 * MiB},
                                         {"size", 30 * MiB},
                                         {"stream", 0},
                                         {"time_us", 2}});
  const RecordedDevice device = recorded_device(log_of(ran_out), 0);
  CHECK(device.source == RecordedDevice::Source::out_of_memory);
  CHECK(device.bytes == 47 * MiB);
}

TEST_CASE("a device is full only where PyTorch gives segments back for a request") {
  const json retried = program(
      {used(kStartsBase, 40 * MiB), gives_back(kStartsBase, 40 * MiB), takes(kOther, 60 * MiB)},
      kOther, 60 * MiB);
  const RecordedDevice full = recorded_device(log_of(retried), 0);
  CHECK(full.source == RecordedDevice::Source::full);
  CHECK(full.bytes == 60 * MiB);

  const json growing =
      program({used(kStartsBase, 40 * MiB), takes(kOther, 60 * MiB)}, kOther, 60 * MiB);
  CHECK(recorded_device(log_of(growing), 0).source == RecordedDevice::Source::unknown);
  CHECK(recorded_device(log_of(growing), 0).bytes == 0);

  const json emptied =
      program({used(kStartsBase, 40 * MiB), gives_back(kStartsBase, 40 * MiB)}, kStartsBase, 0);
  CHECK(recorded_device(log_of(emptied), 0).source == RecordedDevice::Source::unknown);

  const auto csv = trace::parse_trace("id,lower,upper,size\n0,0,4,30000000\n", "test.csv");
  CHECK(recorded_device(csv, 0).source == RecordedDevice::Source::unknown);
}
