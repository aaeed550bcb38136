#include <map>
#include <memory>
#include <string>

#include "allocator/cases/case.hpp"
#include "allocator/cases/recording_allocator.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "millrace/experiment/footprint.hpp"
#include "millrace/memory/caching_allocator.hpp"

namespace millrace::bench {
namespace {

/// The requests of a training loop of `millrace footprint`, recorded on the virtual device without
/// data. It copies on a side stream, as programs for PyTorch's allocator do.
Script record_loop(const std::string& name, std::uint64_t seed) {
  const experiment::Workload workload = experiment::Workload::named(name);
  VirtualMachine machine;
  VirtualDevice::Options options;
  options.profile = DeviceProfile::named("h200");
  options.data = false;
  if (workload.run_ahead > 0) options.launch_queue_depth = workload.run_ahead;
  OrderedDevice device{machine.add_device(options)};
  DeviceSource source{device.device()};
  PinnedSource pinned_source{device.device()};
  CachingAllocator pinned{device, pinned_source, Policy::pinned()};
  CachingAllocator inner{device, source, Policy::millrace()};
  RecordingAllocator recording{inner};
  experiment::TimelineClock clock{machine, kMainStream};
  experiment::LoopOptions loop;
  loop.method = CopyMethod::side_stream;
  loop.step_done = [&] { recording.end_step(); };
  const auto batches = experiment::draw_batches(workload, workload.num_batches, seed);
  (void)experiment::run_training_loop(workload, batches,
                                      {.device = device,
                                       .allocator = recording,
                                       .batches = recording,
                                       .pinned = pinned,
                                       .clock = clock},
                                      loop);
  return recording.script();
}

}  // namespace

void add_training(Cases& cases, const CaseOptions&) {
  for (const std::string& name : experiment::Workload::names()) {
    const auto recorded = std::make_shared<std::map<std::uint64_t, Script>>();
    const auto add = [&](const std::string& case_name, auto run) {
      cases.all.push_back({.suite = "training",
                           .name = case_name,
                           .run = [=](const auto& row, const auto& setting) {
                             const auto [it, added] = recorded->try_emplace(setting.seed);
                             if (added) it->second = record_loop(name, setting.seed);
                             Setting with = setting;
                             with.page = kLargePage;
                             return run(it->second, row, with);
                           }});
    };
    add(name, run_script);
    add(name + "-warm", run_script_warm);
  }
}

}  // namespace millrace::bench
