#include "millrace/pipeline/schedule/footprint.hpp"

#include <memory>

#include "schedule/footprint/cell_device.hpp"
#include "schedule/footprint/cell_memory.hpp"
#include "schedule/footprint/cell_timeline.hpp"

namespace millrace {
FootprintRun run_footprint(const FootprintCell& cell, const Workload& workload,
                           std::span<const InputShape> batches) {
  const std::unique_ptr<CellDevice> on =
      CellDevice::open(cell.device, {.run_ahead = workload.run_ahead});
  const CellTimeline timeline{cell.timeline, *on, cell.allocator, cell.loop.method};
  OrderedDevice ordered{on->device()};
  CellMemory memory{ordered,
                    {.allocator = cell.allocator,
                     .policy = cell.policy,
                     .method = cell.loop.method,
                     .check = ordered.device().modelled()}};
  FootprintRun run;
  run.allocator = cell.allocator;
  run.method = cell.loop.method;
  run.modelled = on->device().modelled();
  run.loop = run_training_loop(workload, batches,
                               {.device = ordered,
                                .allocator = memory.memory(),
                                .batches = memory.batches(),
                                .pinned = memory.pinned(),
                                .clock = on->clock(),
                                .most_launches_ahead = on->most_launches_ahead(),
                                .timeline = cell.timeline},
                               cell.loop);
  run.counts = memory.memory().statistics().counts;
  run.ladder = memory.ladder(run.loop.whole.reserved.peak);
  run.races = memory.races();
  return run;
}

}  // namespace millrace
