#include "millrace/experiment/training_loop.hpp"

#include <map>
#include <string>

#include "millrace/device/fault.hpp"
#include "millrace/experiment/footprint.hpp"
#include "test/experiment/loop_bench.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::experiment;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A workload whose batches take about a millisecond, like real ones.
Workload timed_workload(PipelineKind shape) {
  Workload workload = small_workload(shape).scaled_to(std::size_t{64} << 20);
  workload.activations = std::size_t{128} << 20;
  return workload;
}

double milliseconds(Nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

/// Counts a device's operations by name.
class OperationNames final : public DeviceObserver {
 public:
  explicit OperationNames(VirtualDevice& device) : device_(device) { device.add_observer(*this); }
  ~OperationNames() override { device_.remove_observer(*this); }
  OperationNames(const OperationNames&) = delete;
  OperationNames& operator=(const OperationNames&) = delete;
  void enqueued(StreamHandle, const Operation& operation) override { ++of[operation.name]; }

  std::map<std::string, std::size_t> of;

 private:
  VirtualDevice& device_;
};

/// Runs a loop of 10 batches and keeps its report.
struct OwnLoop {
  explicit OwnLoop(const Workload& workload, std::size_t memory_bytes = std::size_t{1} << 30)
      : bench(memory_bytes), names(bench.device), report(bench.run(workload, clock)) {}

  LoopBench bench;
  TimelineClock clock{bench.machine, kMainStream};
  OperationNames names;
  LoopReport report;
  std::size_t live_blocks = bench.memory.statistics().live_blocks;  ///< after the loop
};

Workload plain_loop() {
  Workload workload = timed_workload(PipelineKind::base);
  workload.layers = 8;
  workload.parameters = std::size_t{1} << 20;
  return workload;
}

}  // namespace

TEST_CASE("sparse-dist holds 2 batches between steps and at most 3, base holds 1") {
  LoopBench bench;
  TimelineClock clock{bench.machine, kMainStream};
  const PipelineKind shape = GENERATE(PipelineKind::sparse_dist, PipelineKind::base);
  const LoopReport report = bench.run(small_workload(shape), clock);
  CHECK(report.batches_at_rest == (shape == PipelineKind::sparse_dist ? 2 : 1));
  CHECK(report.batches_at_peak == (shape == PipelineKind::sparse_dist ? 3 : 1));
}

TEST_CASE("a loop counts every step after its warm-up") {
  LoopBench bench;
  TimelineClock clock{bench.machine, kMainStream};
  const std::size_t warm_up = GENERATE(1, 4, 9);
  const LoopReport report =
      bench.run(small_workload(PipelineKind::sparse_dist), clock, {.warm_up = warm_up});
  CHECK(report.steps.size() == 10 - warm_up);
}

TEST_CASE("a loop without a step after its warm-up is refused") {
  LoopBench bench;
  TimelineClock clock{bench.machine, kMainStream};
  const Workload workload = small_workload(PipelineKind::base);
  CHECK_THROWS_AS(bench.run(workload, clock, {.warm_up = 10}), std::invalid_argument);
  CHECK_THROWS_AS(bench.run(workload, clock, {.warm_up = 0}), std::invalid_argument);
}

TEST_CASE("timed events agree with the timeline of the virtual machine") {
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

TEST_CASE("the calls of an event clock do not count as calls of the loop") {
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

TEST_CASE("a cell's ladder ascends from requested to reserved bytes") {
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

TEST_CASE("a loop that runs out of memory throws, and allocator and device stay usable") {
  const Workload large = timed_workload(PipelineKind::sparse_dist);
  LoopBench bench{std::size_t{256} << 20};
  TimelineClock clock{bench.machine, kMainStream};
  CHECK_THROWS_AS(bench.run(large, clock), out_of_memory);
  CHECK_NOTHROW(bench.memory.check_invariants());
  CHECK(bench.memory.statistics().live_blocks == 0);
  CHECK(bench.pinned.statistics().live_blocks == 0);

  // The loop measures the copy in its own memory, and the allocator has cached all device memory.
  CHECK(bench.memory.trim() > 0);
  CHECK(bench.memory.statistics().bytes.reserved.current == 0);
  TimelineClock second{bench.machine, kMainStream};
  const LoopReport report = bench.run(small_workload(PipelineKind::sparse_dist), second);
  CHECK(report.steps.size() == 6);
}

TEST_CASE("after a driver call fails within a step, allocator and device stay usable") {
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

TEST_CASE("parameters, their gradients and the optimizer's state live as long as the loop") {
  Workload workload = plain_loop();
  workload.gradients = 0;
  const std::size_t without = OwnLoop{workload}.report.whole.requested.peak;
  workload.parameters = std::size_t{31} << 20;
  workload.gradients = std::size_t{7} << 20;
  workload.optimizer_state = std::size_t{60} << 20;
  const std::size_t with = OwnLoop{workload}.report.whole.requested.peak;
  CHECK(with - without == std::size_t{30 + 7 + 60} << 20);
  workload.gradients.reset();
  CHECK(OwnLoop{workload}.report.whole.requested.peak - with == std::size_t{31 - 7} << 20);
}

TEST_CASE("with checkpoints forward keeps fewer outputs and backward recomputes the others") {
  Workload workload = plain_loop();
  const OwnLoop all{workload};
  workload.checkpoint_every = 4;
  const OwnLoop some{workload};
  CHECK(some.report.whole.requested.peak < all.report.whole.requested.peak);
  CHECK(some.report.mean_step > all.report.mean_step);
  CHECK(some.names.of.at("layer") == all.names.of.at("layer"));
  CHECK(some.names.of.at("layer again") == 10 * 6);  // layers 4 and 8 of 8 are kept
  CHECK(!all.names.of.contains("layer again"));
  CHECK(some.live_blocks == 0);
}

TEST_CASE("the ratio of layers moves activations between layers and adds none") {
  const auto peak = [](double ratio, std::size_t checkpoint) {
    Workload workload = plain_loop();
    workload.activations = std::size_t{512} << 20;
    workload.layer_ratio = ratio;
    workload.checkpoint_every = checkpoint;
    return static_cast<double>(OwnLoop{workload}.report.whole.requested.peak);
  };
  CHECK(peak(1, 0) == Approx(peak(0.85, 0)).epsilon(0.01));
  // Eight layers, each half the size of the one before: the first two have three quarters of the
  // activations, both at once. With equal layers, five are live at most: every second one, and the
  // one before the last.
  CHECK(peak(1, 2) < peak(0.5, 2));
}

TEST_CASE("accumulated gradients make one optimizer step for several batches") {
  Workload workload = plain_loop();
  workload.accumulate = 3;
  const OwnLoop loop{workload};
  CHECK(loop.names.of.at("layer backward") == 10 * 8);
  CHECK(loop.names.of.at("optimizer") == 3);
  CHECK(loop.names.of.at("zero gradients") == 4);  // before batches 1, 4, 7 and 10
}

TEST_CASE("an evaluation runs forward only and does not raise the peak of memory") {
  Workload workload = plain_loop();
  const OwnLoop without{workload};
  workload.evaluate_every = 4;
  workload.evaluation_batches = 3;
  const OwnLoop with{workload};
  CHECK(with.names.of.at("evaluate: layer") == 2 * 3 * 8);
  CHECK(with.names.of.at("layer backward") == without.names.of.at("layer backward"));
  CHECK(with.report.whole.requested.peak == without.report.whole.requested.peak);
  CHECK(with.report.mean_step > without.report.mean_step);
}

TEST_CASE("only a few gathered layers are held at once, and all gradients are reduced") {
  Workload workload = plain_loop();
  const std::size_t without = OwnLoop{workload}.report.whole.requested.peak;
  workload.gathered = std::size_t{64} << 20;
  workload.gathers_ahead = 0;
  const OwnLoop next{workload};
  workload.gathers_ahead = 7;
  const OwnLoop all{workload};
  for (const OwnLoop* const loop : {&next, &all}) {
    CHECK(loop->names.of.at("gather layer") == 10 * 2 * 8);
    CHECK(loop->names.of.at("reduce layer") == 10 * 8);
    CHECK(loop->live_blocks == 0);
  }
  const std::size_t layer = workload.gathered / 8;
  CHECK(next.report.whole.requested.peak <= without + 3 * layer);
  CHECK(all.report.whole.requested.peak > next.report.whole.requested.peak);
  CHECK(all.report.mean_step <= next.report.mean_step);
}

TEST_CASE("offloaded activations leave the device between forward and backward") {
  Workload workload = plain_loop();
  workload.layer_ratio = 1;
  const OwnLoop without{workload};
  std::size_t before = without.report.whole.requested.peak;
  for (const std::size_t every : {4, 2, 1}) {
    CAPTURE(every);
    workload.offload_every = every;
    workload.offloads_ahead = 1;
    const OwnLoop with{workload};
    for (const char* const name : {"layer", "layer backward", "optimizer"})
      CHECK(with.names.of.at(name) == without.names.of.at(name));
    CHECK(with.live_blocks == 0);
    CHECK(with.report.whole.requested.peak <= before);
    if (every == 4) CHECK(with.report.whole.requested.peak < before);
    before = with.report.whole.requested.peak;
    workload.offloads_ahead = 8;
    CHECK(OwnLoop{workload}.report.whole.requested.peak >= before);
  }
}

TEST_CASE("batches that are copied ahead stay on the device for as many more steps") {
  Workload workload = plain_loop();
  const LoopReport without = OwnLoop{workload}.report;
  workload.copies_ahead = 2;
  const LoopReport with = OwnLoop{workload}.report;
  CHECK(with.batches_at_rest == without.batches_at_rest + 2);
  CHECK(with.batches_at_peak == without.batches_at_peak + 2);
  CHECK(with.whole.requested.peak >
        without.whole.requested.peak + 2 * workload.mean_batch_bytes() * 9 / 10);
  CHECK(with.mean_step <= without.mean_step);
}

TEST_CASE("a loop with every option of a workload has no race under any schedule") {
  const auto add = [](Workload& workload) {
    workload.layers = 5;
    workload.parameters = 4096;
    workload.optimizer_state = 8192;
    workload.gathered = 5 * 4096;
    workload.gathers_ahead = workload.world_size;  // 1 or 2
    workload.checkpoint_every = 2;
    workload.accumulate = 2;
    workload.evaluate_every = 3;
    workload.activations_by_ids = 1;
    workload.offload_every = workload.world_size;
    workload.offloads_ahead = 2 - workload.world_size;
    workload.copies_ahead = workload.world_size;
  };
  for (std::uint64_t schedule = 0; schedule < 24; ++schedule) {
    LoopCase loop;
    loop.shape = schedule % 2 == 0 ? PipelineKind::sparse_dist : PipelineKind::base;
    loop.ranks = 1 + schedule / 2 % 2;
    loop.allocator = schedule / 4 % 2 == 0 ? "millrace" : "torch";
    loop.schedule = schedule == 0 ? 0 : seed() + schedule;
    loop.change = add;
    const LoopOutcome outcome = run(loop);
    INFO(loop.name());
    CHECK(outcome.races == std::vector<std::string>{});
    CHECK(outcome.corrupted == 0);
  }
}

TEST_CASE("activations scale with the ids of a batch if the workload says so") {
  Workload workload = plain_loop();
  workload.feature_pooling_std = 0;
  workload.feature_pooling_variation = 0;
  const LoopReport plain = OwnLoop{workload}.report;
  workload.activations_by_ids = 1;  // each batch has the mean number of ids
  const LoopReport same = OwnLoop{workload}.report;
  CHECK(same.whole.requested.peak == plain.whole.requested.peak);
  CHECK(same.steps == plain.steps);

  workload.feature_pooling_variation = 0.3;
  workload.activations_by_ids = 0;
  const std::size_t fixed = OwnLoop{workload}.report.whole.requested.peak;
  workload.activations_by_ids = 1;
  CHECK(OwnLoop{workload}.report.whole.requested.peak > fixed);
}

TEST_CASE("host time per operation is a lower bound of the step time") {
  Workload workload = small_workload(PipelineKind::base);
  workload.host_us = 200;
  FootprintCell cell;
  const FootprintRun run = run_footprint(cell, workload, draw_batches(workload, 10, 1));
  const double launches = run.loop.calls_per_step[static_cast<std::size_t>(Call::launch)];
  CHECK(launches > 10);
  CHECK(milliseconds(run.loop.mean_step) >= 0.2 * launches);
}
