#include "millrace/experiment/training_loop.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "loop/loop_recorder.hpp"
#include "loop/model_program.hpp"
#include "loop/modeled_exchange.hpp"
#include "millrace/pipeline/schedule/memory_recording.hpp"
#include "workload/workload_source.hpp"

namespace millrace::experiment {
namespace {

Nanoseconds compute_time(const Workload& workload, Device& device) {
  if (workload.compute_ms) {
    return Nanoseconds{static_cast<Nanoseconds::rep>(std::llround(*workload.compute_ms * 1e6))};
  }
  const Nanoseconds copy = host_to_device_time(device, workload.mean_batch_bytes());
  return Nanoseconds{static_cast<Nanoseconds::rep>(
      std::llround(workload.compute_to_copy * static_cast<double>(copy.count())))};
}

}  // namespace

LoopReport run_training_loop(const Workload& workload, std::span<const InputShape> batches,
                             const LoopSetting& setting, const LoopOptions& options) {
  if (options.warm_up == 0 || batches.size() <= options.warm_up) {
    throw std::invalid_argument{"a run needs a step of warm-up, and more batches than that"};
  }
  LoopWork work{setting, workload};
  const MemoryRecording recording{setting.timeline, setting.allocator, setting.batches,
                                  work.streams.main};
  ModelProgram model{work, workload, compute_time(workload, setting.device.device())};
  ModeledExchange exchange{work, workload};
  const auto pipeline = TrainPipeline::make(workload.shape,
                                            {.streams = work.streams,
                                             .batches = setting.batches,
                                             .model = model,
                                             .exchange = exchange,
                                             .observer = &work},
                                            {.copy = options.method,
                                             .waits = options.waits,
                                             .copies_ahead = workload.copies_ahead,
                                             .lookup = options.lookup,
                                             .stale = options.stale,
                                             .savers = options.savers});
  warm_pinned_memory(setting.pinned, batches, work.streams.copy);
  WorkloadSource source{setting.pinned, work.streams.copy, batches};
  LoopRecorder recorder{work, options.warm_up};
  while (pipeline->progress(source)) {
    if (workload.run_ahead == 0) work.streams.main.synchronize();
    recorder.step_ended(pipeline->held());
    if (options.step_done) options.step_done();
  }
  return recorder.report(pipeline->most_held());
}

Nanoseconds host_to_device_time(Device& device, std::size_t bytes) {
  const std::size_t sample = std::clamp(bytes, std::size_t{1}, std::size_t{64} << 20);
  void* const from = device.allocate_host(sample);
  void* const to = device.allocate(sample);
  const StreamHandle stream = device.create_stream();
  const EventHandle begin = device.create_event(true);
  const EventHandle end = device.create_event(true);
  // The first copy is a warm-up.
  device.copy(to, from, sample, CopyKind::host_to_device, stream);
  device.record(begin, stream);
  device.copy(to, from, sample, CopyKind::host_to_device, stream);
  device.record(end, stream);
  device.synchronize(stream);
  const Nanoseconds time = device.event_time(end) - device.event_time(begin);
  device.destroy_event(begin);
  device.destroy_event(end);
  device.destroy_stream(stream);
  device.free(to);
  device.free_host(from);
  const double scale = static_cast<double>(bytes) / static_cast<double>(sample);
  return Nanoseconds{static_cast<Nanoseconds::rep>(static_cast<double>(time.count()) * scale)};
}

}  // namespace millrace::experiment
