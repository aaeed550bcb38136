#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "millrace/interop/device_memory.hpp"
#include "millrace/observe/driver_model.hpp"
#include "millrace/observe/replay.hpp"
#include "millrace/observe/trace/read_trace.hpp"
#include "millrace/observe/trace/write_snapshot.hpp"
#include "test/interpose/run.hpp"
#include "test/support/catch.hpp"
#include "test/support/scratch_folder.hpp"
#include "test/support/sizes.hpp"

// Traces that `millrace run --record` writes for a program that keeps its own allocator.

namespace {

using millrace::test::MiB;

using Catch::Matchers::ContainsSubstring;
using millrace::replay;
using millrace::test::Ran;
using millrace::test::run;
using namespace millrace::trace;

/// A run of the program with a trace.
class Recorded {
 public:
  explicit Recorded(const std::string& words, const std::string& schedule = "instant")
      : ran(run(words, schedule, "MILLRACE_RUN_RECORD='" + (folder_ / "trace").string() + "'")) {}

  [[nodiscard]] AllocationLog log() const { return read_trace(folder_ / "trace"); }
  [[nodiscard]] std::vector<std::string> files() const { return folder_.names(); }

 private:
  millrace::test::ScratchFolder folder_;

 public:
  const Ran ran;
};

std::vector<std::uint64_t> sizes(const AllocationLog& log) {
  std::vector<std::uint64_t> sizes;
  for (const LoggedBlock& block : log.blocks) sizes.push_back(block.bytes);
  return sizes;
}

std::size_t count(const AllocationLog& log, EventKind kind) {
  return static_cast<std::size_t>(std::ranges::count(log.events, kind, &LogEvent::kind));
}

std::size_t count(const AllocationLog& log, OrderKind kind) {
  return static_cast<std::size_t>(std::ranges::count(log.order, kind, &LoggedOrder::kind));
}

}  // namespace

TEST_CASE("a trace has each request of the program with its stream and call stack") {
  const std::string schedule = GENERATE("instant", "adversarial:1", "h200");
  CAPTURE(schedule);
  const Recorded recorded{"counted_by_hand", schedule};
  CAPTURE(recorded.ran.errors);
  REQUIRE(recorded.ran.code == 0);
  CHECK(recorded.ran.report.at("allocator") == "own");
  const AllocationLog log = recorded.log();
  CHECK(log.warnings == std::vector<std::string>{});
  CHECK_THAT(log.program, ContainsSubstring("counted_by_hand"));
  CHECK(log.device_memory == std::vector<std::uint64_t>{2048 * MiB});
  CHECK(sizes(log) == std::vector<std::uint64_t>{6 * MiB, 6 * MiB, 6 * MiB, 3 * MiB, 4 * MiB});
  CHECK(count(log, EventKind::free_requested) == 3);
  CHECK(log.streams[log.blocks[3].stream].for_all);
  CHECK(log.blocks[0].stream == log.blocks[4].stream);
  CHECK_FALSE(log.streams[log.blocks[0].stream].blocking);
  for (const LoggedBlock& block : log.blocks) {
    const auto frames = log.stacks.frames_of(block.stack);
    CHECK(std::ranges::any_of(frames, [&](StackTable::FrameId frame) {
      return log.stacks.at(frame).function.find("counted_by_hand") != std::string::npos;
    }));
  }
  // The memory of its own allocators: 32 MiB in the pool and 3 MiB of cudaMalloc.
  std::uint64_t held = 0, most = 0;
  for (const LogEvent& event : log.events) {
    if (event.kind == EventKind::segment_alloc) held += event.bytes;
    if (event.kind == EventKind::segment_free) held -= event.bytes;
    most = std::max(most, held);
  }
  CHECK(most == recorded.ran.report.at("gpus").at(0).at("own_peak_bytes"));
  CHECK(most == (32 + 3) * MiB);
}

TEST_CASE("a trace has the requests that ran out of memory") {
  const AllocationLog log = Recorded{"too_much"}.log();
  std::vector<std::uint64_t> failed;
  for (const LogEvent& event : log.events)
    if (event.kind == EventKind::out_of_memory) failed.push_back(event.bytes);
  CHECK(failed == std::vector{std::uint64_t{1} << 45, std::uint64_t{1} << 44});
  CHECK(sizes(log) == std::vector<std::uint64_t>{MiB});
}

TEST_CASE("a trace has the order of the program's streams") {
  const Recorded recorded{"reused_after_an_event", "adversarial:1"};
  const AllocationLog log = recorded.log();
  CHECK(log.warnings == std::vector<std::string>{});
  CHECK(count(log, EventKind::allocate) == 20);
  CHECK(count(log, OrderKind::marked) == 20);
  CHECK(count(log, OrderKind::waited) == 20);
  CHECK(count(log, OrderKind::passed_device) == 1);
  // By the program's events, everything fits into one block. So an allocator that knows the events
  // takes one segment.
  CHECK(replay(log, 0, {.policy = millrace::Policy::millrace()}).statistics.bytes.reserved.peak ==
        20 * MiB);
  CHECK(replay(log, 0, {.policy = millrace::Policy::torch()}).statistics.bytes.reserved.peak ==
        2 * 20 * MiB);
  CHECK(millrace::model_driver(log, 0, 0).most == 32 * MiB);
}

TEST_CASE("a replay of a trace reserves the bytes that the report gives for Millrace") {
  const std::string schedule = GENERATE("instant", "adversarial:1");
  const std::string words =
      GENERATE("data 1", "data 2", "streams_in_a_loop", "everywhere", "reused_after_an_event",
               "counted_by_hand", "streams_side_by_side");
  CAPTURE(schedule, words);
  const Recorded recorded{words, schedule};
  REQUIRE(recorded.ran.code == 0);
  const AllocationLog log = recorded.log();
  CHECK(log.warnings == std::vector<std::string>{});
  const auto& gpu = recorded.ran.report.at("gpus").at(0);
  const auto report = replay(
      log, 0,
      {.policy = millrace::DeviceMemory::drop_in(), .device_bytes = log.device_memory.at(0)});
  CHECK(report.statistics.bytes.requested.peak == gpu.at("bytes").at("requested").at("peak"));
  CHECK(report.allocations == gpu.at("counts").at("allocations"));
  CHECK(report.recorded_peak == gpu.at("own_peak_bytes").get<std::size_t>());
  const double replayed = static_cast<double>(report.statistics.bytes.reserved.peak);
  const double beside = gpu.at("bytes").at("reserved").at("peak");
  CHECK(std::abs(replayed - beside) <= 0.01 * beside);
}

TEST_CASE("a program that is killed leaves a trace of all of its requests") {
  const Recorded recorded{"killed"};
  CHECK(recorded.ran.code == 128 + SIGKILL);
  const AllocationLog log = recorded.log();
  REQUIRE(log.warnings.size() == 1);
  CHECK_THAT(log.warnings[0], ContainsSubstring("no last record"));
  CHECK(sizes(log) == std::vector<std::uint64_t>{6 * MiB, 5 * MiB, 4 * MiB});
  CHECK(count(log, EventKind::free_requested) == 1);
}

TEST_CASE("each process of a job has its own trace, a child that cannot use CUDA has none") {
  const Recorded before{"fork_before_first_call"};
  CHECK(before.ran.code == 0);
  CHECK(before.files().size() == 2);
  CHECK(before.log().blocks.size() == 1);
  const Recorded after{"fork_after_first_call"};
  CHECK(after.ran.code == 0);
  CHECK(after.files().size() == 1);
  CHECK(after.log().blocks.size() == 2);
  CHECK(after.log().warnings == std::vector<std::string>{});
}

TEST_CASE("a trace has every GPU that the program uses") {
  const Recorded recorded{"two_gpus", "instant,gpus=2"};
  REQUIRE(recorded.ran.code == 0);
  const AllocationLog log = recorded.log();
  CHECK(sizes(log) == std::vector<std::uint64_t>{1 * MiB, 3 * MiB, 2 * MiB, 4 * MiB});
  CHECK(log.blocks[1].device == 0);
  CHECK(log.blocks[2].device == 1);
  CHECK(replay(log, 0, {}).load == 4 * MiB);
  CHECK(replay(log, 1, {}).load == 6 * MiB);
}

TEST_CASE("threads that allocate concurrently leave a trace without contradictions") {
  const std::string schedule = GENERATE("instant", "adversarial:1");
  CAPTURE(schedule);
  const Recorded recorded{"data_in_threads", schedule};
  REQUIRE(recorded.ran.code == 0);
  const AllocationLog log = recorded.log();
  CHECK(log.warnings == std::vector<std::string>{});
  CHECK(count(log, EventKind::allocate) == log.blocks.size());
  CHECK(count(log, EventKind::free_requested) == log.blocks.size());
}

TEST_CASE("a recorded program ends with the same exit code as alone") {
  const std::string name = GENERATE("exit_in_a_host_function", "free_in_a_late_destructor",
                                    "foreign_pointers", "last_error_stays", "too_much",
                                    "opened_by_hand", "own_pool", "captured", "free_in_a_capture");
  CAPTURE(name);
  const Recorded recorded{name, "adversarial:1"};
  CAPTURE(recorded.ran.errors);
  CHECK(recorded.ran.code == (name == "exit_in_a_host_function" ? 3 : 0));
  CHECK(recorded.log().warnings == std::vector<std::string>{});
}

// MILLRACE_RUN_SNAPSHOT: the work of Millrace's allocator, for PyTorch's viewer.

TEST_CASE("the snapshot of a run has the bytes of its report and its allocations' stacks") {
  for (const char* const words : {"counted_by_hand", "two_gpus"}) {
    CAPTURE(words);
    const millrace::test::ScratchFolder folder;
    const Ran ran = run(words, "instant,gpus=2",
                        "MILLRACE_RUN_SNAPSHOT='" + (folder / "run.pickle").string() + "'");
    REQUIRE(ran.code == 0);
    CHECK(folder.names() == std::vector<std::string>{"run.pickle"});
    const TorchSnapshot snapshot = whole_snapshot(read_trace(folder / "run.pickle"));
    for (const auto& gpu : ran.report.at("gpus")) {
      const std::uint32_t device = gpu.at("gpu");
      std::size_t reserved = 0, requested = 0, allocations = 0;
      for (const TorchSegment& segment : snapshot.segments) {
        if (segment.device != device) continue;
        reserved += segment.bytes;
        for (const TorchBlock& block : segment.blocks)
          requested += block.state == BlockState::allocated ? block.requested : 0;
      }
      for (const TorchEvent& event : snapshot.traces.at(device)) {
        if (event.action != TorchAction::alloc) continue;
        ++allocations;
        std::string functions;
        for (const StackTable::FrameId frame : snapshot.stacks.frames_of(event.stack))
          functions += snapshot.stacks.at(frame).function + '\n';
        CHECK_THAT(functions, ContainsSubstring(words) && !ContainsSubstring("millrace::"));
      }
      CHECK(reserved == gpu.at("bytes").at("reserved").at("current"));
      CHECK(requested == gpu.at("bytes").at("requested").at("current"));
      CHECK(allocations == gpu.at("counts").at("allocations"));
    }
  }
}
