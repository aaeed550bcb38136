#include "millrace/pipeline/schedule/training_device.hpp"

#include <utility>

#include "millrace/pipeline/schedule/memory_recording.hpp"
#include "millrace/pipeline/schedule/peak_meter.hpp"
#include "millrace/pipeline/schedule/run_device.hpp"
#include "millrace/pipeline/schedule/run_memory.hpp"
#include "millrace/pipeline/schedule/run_timeline.hpp"

namespace millrace {
namespace {

// Attribution of these takes less than half a second.
constexpr std::size_t kTracedAllocations = 20'000;

struct OwnDevice {
  explicit OwnDevice(const TrainingOptions& options)
      : device(RunDevice::open(options.device, {.data = true})),
        attached(options.timeline, *device, options.allocator, options.copy) {}

  const std::unique_ptr<RunDevice> device;
  const RunTimeline attached;
};

}  // namespace

struct TrainingDevice::Parts {
  Parts(const TrainingOptions& given, std::unique_ptr<OwnDevice> mine,
        const TrainingEnvironment& environment)
      : options(given),
        own(std::move(mine)),
        executor(environment.executor),
        ordered(environment.device),
        memory(ordered, {.allocator = given.allocator,
                         .method = given.copy,
                         .executor = &executor,
                         .check = given.check_races && environment.device.modeled(),
                         .checking = environment.checking,
                         .keep = kTracedAllocations}),
        streams(ordered, given.pipeline),
        meter(memory.memory(), memory.batches()),
        recording(given.timeline, memory.memory(), memory.batches(), streams.main) {}

  // The order matters: each part uses those above it, and is destroyed before them.
  const TrainingOptions options;
  const std::unique_ptr<OwnDevice> own;  ///< null: the device is the caller's
  Executor& executor;
  OrderedDevice ordered;
  RunMemory memory;
  PipelineStreams streams;
  PeakMeter meter;
  const MemoryRecording recording;
};

TrainingDevice::TrainingDevice(const TrainingOptions& options) {
  auto own = std::make_unique<OwnDevice>(options);
  const TrainingEnvironment environment{own->device->device(), own->device->executor()};
  parts_ = std::make_unique<Parts>(options, std::move(own), environment);
}

TrainingDevice::TrainingDevice(const TrainingOptions& options,
                               const TrainingEnvironment& environment)
    : parts_(std::make_unique<Parts>(options, nullptr, environment)) {}

TrainingDevice::~TrainingDevice() = default;

const TrainingOptions& TrainingDevice::options() const noexcept { return parts_->options; }
Executor& TrainingDevice::executor() noexcept { return parts_->executor; }
OrderedDevice& TrainingDevice::ordered() noexcept { return parts_->ordered; }
PipelineStreams& TrainingDevice::streams() noexcept { return parts_->streams; }
Allocator& TrainingDevice::memory() noexcept { return parts_->memory.memory(); }
Allocator& TrainingDevice::batches() noexcept { return parts_->memory.batches(); }

PinnedStaging TrainingDevice::staging() noexcept {
  return {parts_->memory.pinned(), parts_->streams.copy};
}

const AllocationTrace& TrainingDevice::trace() const noexcept { return parts_->memory.trace(); }

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
