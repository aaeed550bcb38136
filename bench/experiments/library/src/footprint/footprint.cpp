#include "millrace/experiment/footprint.hpp"

#include <memory>

#include "millrace/pipeline/schedule/run_device.hpp"
#include "millrace/pipeline/schedule/run_memory.hpp"
#include "millrace/pipeline/schedule/run_timeline.hpp"

namespace millrace::experiment {
namespace {

std::unique_ptr<LoopClock> make_clock(RunDevice& on) {
  if (on.machine() != nullptr) return std::make_unique<TimelineClock>(*on.machine(), kMainStream);
  return std::make_unique<EventClock>(on.device());
}

/** The run-ahead that the loop must enforce itself, because a GPU's queue length cannot be set; 0
 * on a virtual device, which enforces it. */
unsigned most_launches_ahead(RunDevice& on, const Workload& workload) {
  return on.machine() != nullptr ? 0 : workload.run_ahead;
}

}  // namespace

FootprintRun run_footprint(const FootprintCell& cell, const Workload& workload,
                           std::span<const InputShape> batches) {
  const std::unique_ptr<RunDevice> on =
      RunDevice::open(cell.device, {.run_ahead = workload.run_ahead});
  const std::unique_ptr<LoopClock> clock = make_clock(*on);
  const RunTimeline timeline{cell.timeline, *on, cell.allocator, cell.loop.method};
  OrderedDevice ordered{on->device()};
  RunMemory memory{ordered,
                   {.allocator = cell.allocator,
                    .policy = cell.policy,
                    .method = cell.loop.method,
                    .check = ordered.device().modeled()}};
  std::optional<RunRecording> recording;
  if (cell.recorded && on->machine() != nullptr) {
    recording.emplace(*on->machine(), on->device(), memory.trace());
  }
  LoopOptions loop = cell.loop;
  StepMarks steps{memory.trace()};
  if (recording) {
    loop.step_done = [&] {
      steps.step_done();
      if (cell.loop.step_done) cell.loop.step_done();
    };
  }
  FootprintRun run;
  run.allocator = cell.allocator;
  run.method = cell.loop.method;
  run.modeled = on->device().modeled();
  run.loop = run_training_loop(workload, batches,
                               {.device = ordered,
                                .allocator = memory.memory(),
                                .batches = memory.batches(),
                                .pinned = memory.pinned(),
                                .clock = *clock,
                                .host = &on->executor(),
                                .most_launches_ahead = most_launches_ahead(*on, workload),
                                .timeline = cell.timeline},
                               loop);
  run.counts = memory.memory().statistics().counts;
  run.ladder = memory.ladder(run.loop.whole.reserved.peak);
  run.races = memory.races();
  if (recording) {
    RecordedRun recorded{memory.trace(), *recording, run.loop.streams, run.ladder};
    if (!uses_driver_pool(run.allocator, run.method))
      recorded.stranded_peak = run.loop.stranded_peak;
    recorded.steps = steps.marks();
    cell.recorded(recorded);
  }
  return run;
}

}  // namespace millrace::experiment
