#include "millrace/observe/replay.hpp"

#include <filesystem>
#include <string>

#include "millrace/memory/out_of_memory.hpp"
#include "millrace/observe/trace/read_trace.hpp"
#include "test/support/catch.hpp"
#include "test/support/data.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using test::MiB;

namespace {

ReplayReport replay_text(const std::string& text, const Policy& policy) {
  return replay(trace::parse_trace(text, "test.csv"), 0, {.policy = policy});
}

}  // namespace

TEST_CASE("the torch policy puts every block of a PyTorch trace where PyTorch put it") {
  const auto data = test::data_folder();
  if (!data) SKIP("the sample traces are not here: set MILLRACE_DATA");
  for (const char* name : {"medium_128_inference", "medium_128_training", "medium_512_inference"}) {
    const auto file = *data / "traces" / "pytorch" / (std::string{name} + ".pickle");
    const ReplayReport report = replay(trace::read_trace(file), 0, {});
    INFO(name << ": " << report.decisions->first_difference);
    CHECK(report.decisions->total > 1000);
    CHECK(report.decisions->same == report.decisions->total);
    CHECK(report.decisions->segments_same == report.decisions->segments_total);
    CHECK(report.statistics.bytes.reserved.peak == report.recorded_peak);
  }
}

TEST_CASE("the torch policy puts every block where PyTorch put it on a GPU") {
  for (const char* const name :
       {"rollout_and_training", "stream_fragmentation", "capture_streams", "pool_in_use", "dlrm",
        "rollout_and_training.expandable", "capture_streams.expandable"}) {
    const auto file =
        test::source_folder() / "test/observe/snapshots" / (std::string{name} + ".pickle.gz");
    const ReplayReport report = replay(trace::read_trace(file), 0, {});
    INFO(name << ": " << report.decisions->first_difference);
    CHECK(report.decisions->total >= 48);
    CHECK(report.decisions->same == report.decisions->total);
    CHECK(report.decisions->segments_same == report.decisions->segments_total);
    CHECK(report.statistics.bytes.reserved.peak == report.recorded_peak);
  }
}

TEST_CASE("a replay accepts expandable segments that PyTorch cannot have made") {
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator{test::source_folder() / "test/observe/snapshots/made"}) {
    INFO(entry.path().string());
    ++files;
    const trace::AllocationLog log = trace::read_trace(entry.path());
    for (const Policy& policy : {Policy::torch(), Policy::torch_expandable(), Policy::millrace()}) {
      for (const ReplayStart start : {ReplayStart::recorded, ReplayStart::live_blocks}) {
        const ReplayReport report = replay(log, 0, {.policy = policy, .start = start});
        CHECK(report.statistics.bytes.reserved.peak >= report.load);
      }
    }
  }
  CHECK(files == 7);
}

TEST_CASE("the millrace policy reserves no more than PyTorch's expandable segments on a GPU") {
  for (const char* const name : {"rollout_and_training", "capture_streams"}) {
    const auto file = test::source_folder() / "test/observe/snapshots" /
                      (std::string{name} + ".expandable.pickle.gz");
    const ReplayReport report = replay(trace::read_trace(file), 0, {.policy = Policy::millrace()});
    INFO(name);
    CHECK(report.recorded_peak > report.load);
    CHECK(report.statistics.bytes.reserved.peak <= report.recorded_peak);
  }
}

TEST_CASE("a replay's ladder begins at the load and ends at the reserved bytes") {
  const std::string text =
      "id,lower,upper,size\n0,0,4,3000000\n1,1,3,5000000\n2,2,6,1000\n3,5,8,9000000\n";
  for (const Policy& policy : {Policy::torch(), Policy::millrace()}) {
    const ReplayReport report = replay_text(text, policy);
    CHECK(report.allocations == 4);
    CHECK(report.load == 9'001'000);
    CHECK(report.ladder.requested == report.load);
    CHECK(report.ladder.requested <= report.ladder.rounded);
    CHECK(report.ladder.rounded <= report.ladder.ordered);
    CHECK(report.ladder.ordered <= report.ladder.packed);
    CHECK(report.ladder.packed <= report.ladder.reserved);
    CHECK(report.ladder.reserved == report.statistics.bytes.reserved.peak);
    CHECK(report.packed >= report.load);
    CHECK_FALSE(report.decisions.has_value());
  }
}

TEST_CASE("the streams of a log share no memory under PyTorch's policy") {
  const std::string text =
      "Thread,Time,Action,Pointer,Size,Stream\n"
      "1,00:00:00:000001,allocate,0x7f0000000000,4194304,0x10\n"
      "1,00:00:00:000002,free,0x7f0000000000,4194304,0x10\n"
      "1,00:00:00:000003,allocate,0x7f0000000000,4194304,0x20\n"
      "1,00:00:00:000004,free,0x7f0000000000,4194304,0x20\n";
  CHECK(replay_text(text, Policy::torch()).statistics.bytes.reserved.peak == 40 * MiB);
  CHECK(replay_text(text, Policy::torch()).statistics.streams.size() == 2);
}

TEST_CASE("a replay on a device that is too small throws out_of_memory") {
  const auto log = trace::parse_trace("id,lower,upper,size\n0,0,4,30000000\n", "test.csv");
  CHECK_THROWS_AS(replay(log, 0, {.device_bytes = 16 * MiB}), out_of_memory);
}
