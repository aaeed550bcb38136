#include "millrace/experiment/training_loop.hpp"

#include "millrace/device/fault.hpp"
#include "millrace/experiment/footprint.hpp"
#include "test/experiment/loop_bench.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::experiment;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// With batches that take a millisecond or so, as real ones do.
Workload timed_workload(PipelineKind shape) {
  Workload workload = small_workload(shape).scaled_to(std::size_t{64} << 20);
  workload.activations = std::size_t{128} << 20;
  return workload;
}

double milliseconds(Nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

}  // namespace

TEST_CASE("sparse-dist holds two batches between steps and three within, base one") {
  LoopBench bench;
  TimelineClock clock{bench.machine, kMainStream};
  const PipelineKind shape = GENERATE(PipelineKind::sparse_dist, PipelineKind::base);
  const LoopReport report = bench.run(small_workload(shape), clock);
  CHECK(report.batches_at_rest == (shape == PipelineKind::sparse_dist ? 2 : 1));
  CHECK(report.batches_at_peak == (shape == PipelineKind::sparse_dist ? 3 : 1));
}

TEST_CASE("a loop counts every step behind its warm-up") {
  LoopBench bench;
  TimelineClock clock{bench.machine, kMainStream};
  const std::size_t warm_up = GENERATE(1, 4, 9);
  const LoopReport report =
      bench.run(small_workload(PipelineKind::sparse_dist), clock, {.warm_up = warm_up});
  CHECK(report.steps.size() == 10 - warm_up);
}

TEST_CASE("a loop with no step behind its warm-up is refused") {
  LoopBench bench;
  TimelineClock clock{bench.machine, kMainStream};
  const Workload workload = small_workload(PipelineKind::base);
  CHECK_THROWS_AS(bench.run(workload, clock, {.warm_up = 10}), std::invalid_argument);
  CHECK_THROWS_AS(bench.run(workload, clock, {.warm_up = 0}), std::invalid_argument);
}

TEST_CASE("timed events see what the virtual machine's own timeline sees") {
  const PipelineKind shape = GENERATE(PipelineKind::sparse_dist, PipelineKind::base);
  const CopyMethod method = GENERATE(CopyMethod::side_stream, CopyMethod::in_place);
  const Workload workload = timed_workload(shape);
  LoopBench by_timeline;
  TimelineClock timeline{by_timeline.machine, kMainStream};
  const LoopReport seen = by_timeline.run(workload, timeline, {.method = method});
  LoopBench by_events;
  EventClock events{by_events.device};
  const LoopReport timed = by_events.run(workload, events, {.method = method});

  CHECK(milliseconds(timed.mean_step) == Approx(milliseconds(seen.mean_step)).epsilon(0.02));
  CHECK(milliseconds(timed.copy_per_step) == Approx(milliseconds(seen.copy_per_step)).epsilon(0.1));
  CHECK(timed.h2d_hidden == Approx(seen.h2d_hidden).margin(0.05));
}

TEST_CASE("an event clock's own calls are not the loop's") {
  const Workload workload = small_workload(PipelineKind::sparse_dist);
  LoopBench by_timeline;
  TimelineClock timeline{by_timeline.machine, kMainStream};
  const LoopReport seen = by_timeline.run(workload, timeline);
  LoopBench by_events;
  EventClock events{by_events.device};
  const LoopReport timed = by_events.run(workload, events);
  for (const Call call : {Call::record, Call::wait, Call::create_event, Call::copy, Call::launch}) {
    INFO(to_string(call));
    CHECK(timed.calls_per_step[static_cast<std::size_t>(call)] ==
          Approx(seen.calls_per_step[static_cast<std::size_t>(call)]).margin(1));
  }
}

TEST_CASE("the host is at most as many launches ahead as the option allows") {
  LoopBench bench;
  TimelineClock clock{bench.machine, kMainStream};
  const Workload workload = timed_workload(PipelineKind::base);
  const std::vector<InputShape> batches = draw_batches(workload, 6, 1);
  class Watch final : public DeviceObserver {
   public:
    explicit Watch(VirtualDevice& device) : device_(device) { device.add_observer(*this); }
    ~Watch() override { device_.remove_observer(*this); }
    void enqueued(StreamHandle, const Operation&) override {
      most = std::max(most, device_.pending());
    }
    std::size_t most = 0;

   private:
    VirtualDevice& device_;
  };
  const auto most_pending = [&](unsigned launches) {
    Watch watch{bench.device};
    static_cast<void>(run_training_loop(workload, batches,
                                        {.device = bench.ordered,
                                         .allocator = bench.memory,
                                         .batches = bench.memory,
                                         .pinned = bench.pinned,
                                         .clock = clock,
                                         .most_launches_ahead = launches},
                                        {}));
    return watch.most;
  };
  const std::size_t limited = most_pending(4);
  CHECK(limited < most_pending(0) / 2);
}

TEST_CASE("the same cell and seed give the same run") {
  const Workload workload = timed_workload(PipelineKind::sparse_dist);
  FootprintCell cell;
  cell.allocator = GENERATE("torch", "millrace", "driver");
  cell.loop.method = GENERATE(CopyMethod::side_stream, CopyMethod::driver_async);
  const FootprintRun first = run_footprint(cell, workload, draw_batches(workload, 10, 7));
  const FootprintRun again = run_footprint(cell, workload, draw_batches(workload, 10, 7));
  CHECK(first.loop.steps == again.loop.steps);
  CHECK(first.loop.calls_per_step == again.loop.calls_per_step);
  CHECK(first.loop.whole.reserved.peak == again.loop.whole.reserved.peak);
  CHECK(first.loop.whole.active.peak == again.loop.whole.active.peak);
  CHECK(first.ladder.ordered == again.ladder.ordered);
  CHECK(first.ladder.packed == again.ladder.packed);
}

TEST_CASE("a cell's ladder ascends from what was live to what was reserved") {
  FootprintCell cell;
  cell.allocator = GENERATE("torch", "millrace", "driver");
  cell.loop.method = GENERATE(from_range(kCopyMethods));
  const Workload workload = timed_workload(GENERATE(PipelineKind::sparse_dist, PipelineKind::base));
  const FootprintRun run = run_footprint(cell, workload, draw_batches(workload, 10, 7));
  const Ladder& ladder = run.ladder;
  INFO(cell.allocator << ' ' << to_string(cell.loop.method));
  CHECK(ladder.requested <= ladder.rounded);
  CHECK(ladder.rounded <= ladder.ordered);
  CHECK(ladder.ordered <= ladder.packed);
  CHECK(ladder.packed <= ladder.reserved);
  CHECK(ladder.reserved == run.loop.whole.reserved.peak);
  CHECK(ladder.requested == run.loop.whole.requested.peak);
  CHECK(ladder.rounded == run.loop.whole.allocated.peak);
  CHECK(run.loop.whole.allocated.peak <= run.loop.whole.active.peak);
  CHECK(run.loop.whole.active.peak <= run.loop.whole.reserved.peak);
}

TEST_CASE("a loop that runs out of memory says so, and leaves allocator and device usable") {
  const Workload large = timed_workload(PipelineKind::sparse_dist);
  LoopBench bench{std::size_t{256} << 20};
  TimelineClock clock{bench.machine, kMainStream};
  CHECK_THROWS_AS(bench.run(large, clock), out_of_memory);
  CHECK_NOTHROW(bench.memory.check_invariants());
  CHECK(bench.memory.statistics().live_blocks == 0);
  CHECK(bench.pinned.statistics().live_blocks == 0);

  // The loop measures the copy in memory of its own, and the allocator has cached all there is.
  CHECK(bench.memory.trim() > 0);
  CHECK(bench.memory.statistics().bytes.reserved.current == 0);
  TimelineClock second{bench.machine, kMainStream};
  const LoopReport report = bench.run(small_workload(PipelineKind::sparse_dist), second);
  CHECK(report.steps.size() == 6);
}

TEST_CASE("a driver call that fails in the middle of a step leaves everything usable") {
  const CopyMethod method = GENERATE(CopyMethod::side_stream, CopyMethod::in_place,
                                     CopyMethod::precise, CopyMethod::ring);
  const Workload workload = small_workload(GENERATE(PipelineKind::sparse_dist, PipelineKind::base));
  LoopBench bench;
  FaultInjector faults{bench.device};
  std::size_t failed = 0;
  for (std::uint64_t call = 1; call < 600; call += 7) {
    faults.fail_call(call, ErrorCode::unknown);
    TimelineClock clock{bench.machine, kMainStream};
    try {
      static_cast<void>(bench.run(workload, clock, {.method = method}));
    } catch (const DeviceError&) {
      ++failed;
    }
    faults.clear();
    INFO(to_string(method) << ", call " << call);
    REQUIRE_NOTHROW(bench.memory.check_invariants());
    REQUIRE(bench.memory.statistics().live_blocks == 0);
    REQUIRE(bench.pinned.statistics().live_blocks == 0);
  }
  CHECK(failed > 10);
  TimelineClock clock{bench.machine, kMainStream};
  CHECK(bench.run(workload, clock, {.method = method}).steps.size() == 6);
}
