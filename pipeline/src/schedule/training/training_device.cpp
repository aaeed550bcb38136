#include "millrace/pipeline/schedule/training_device.hpp"

#include "schedule/footprint/cell_device.hpp"
#include "schedule/footprint/cell_memory.hpp"
#include "schedule/footprint/cell_timeline.hpp"
#include "schedule/workload/peak_meter.hpp"
#include "schedule/workload/recording.hpp"

namespace millrace {
namespace {

constexpr std::size_t kTracedAllocations = 20'000;  // attributed in less than half a second

}  // namespace

struct TrainingDevice::Parts {
  explicit Parts(const TrainingOptions& given)
      : options(given),
        on(CellDevice::open(given.device, {.data = true})),
        attached(given.timeline, *on, given.allocator, given.copy),
        ordered(on->device()),
        memory(ordered, {.allocator = given.allocator,
                         .method = given.copy,
                         .executor = &on->executor(),
                         .check = given.check_races && on->device().modelled(),
                         .keep = kTracedAllocations}),
        streams(ordered, given.pipeline),
        meter(memory.memory(), memory.batches()),
        recording(given.timeline, memory.memory(), memory.batches(), streams.main) {}

  const TrainingOptions options;
  std::unique_ptr<CellDevice> on;
  const CellTimeline attached;
  OrderedDevice ordered;
  CellMemory memory;
  PipelineStreams streams;
  PeakMeter meter;
  const Recording recording;
};

TrainingDevice::TrainingDevice(const TrainingOptions& options)
    : parts_(std::make_unique<Parts>(options)) {}

TrainingDevice::~TrainingDevice() = default;

const TrainingOptions& TrainingDevice::options() const noexcept { return parts_->options; }
Executor& TrainingDevice::executor() noexcept { return parts_->on->executor(); }
PipelineStreams& TrainingDevice::streams() noexcept { return parts_->streams; }
Allocator& TrainingDevice::memory() noexcept { return parts_->memory.memory(); }
Allocator& TrainingDevice::batches() noexcept { return parts_->memory.batches(); }

PinnedStaging TrainingDevice::staging() noexcept {
  return {parts_->memory.pinned(), parts_->streams.copy};
}

void TrainingDevice::sample() { parts_->meter.sample(); }

TrainingAccounting TrainingDevice::accounting() {
  PipelineStreams& streams = parts_->streams;
  TrainingAccounting accounting;
  accounting.bytes = parts_->meter.whole();
  accounting.counts = memory().statistics().counts;
  accounting.ladder = parts_->memory.ladder(accounting.bytes.reserved.peak);
  accounting.whole_ladder = parts_->memory.trace().complete_from() == 0;
  accounting.usable_by_main = memory().usable(streams.main);
  accounting.streams = {{streams.main.id(), kMainStream},
                        {streams.copy.id(), "copy"},
                        {streams.data_dist.id(), "data-dist"}};
  accounting.races = parts_->memory.races();
  return accounting;
}

}  // namespace millrace
