#include "millrace/pipeline/schedule/training_ranks.hpp"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/pipeline/collective/run_ranks.hpp"
#include "millrace/pipeline/collective/thread_group.hpp"
#include "millrace/pipeline/schedule/run_device.hpp"
#include "millrace/pipeline/schedule/run_timeline.hpp"

namespace millrace {
namespace {

DeviceProfile profile_of(const std::string& device) {
  if (!find_device(device).modeled) {
    throw std::invalid_argument{fmt::format(
        "ranks of one process need a virtual device, not {}: use one process for each GPU",
        device)};
  }
  return DeviceProfile::named(device.substr(device.find(':') + 1));
}

}  // namespace

void run_training_ranks(
    const TrainingOptions& options, unsigned ranks,
    const std::function<void(TrainingDevice& device, ProcessGroup& group)>& body) {
  const DeviceProfile profile = profile_of(options.device);
  VirtualMachine machine;
  std::vector<VirtualDevice*> devices;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    VirtualDevice::Options of_rank;
    of_rank.profile = profile;
    devices.push_back(&machine.add_device(of_rank));
  }
  std::optional<CheckingObserver> checking;
  if (options.check_races) {
    checking.emplace();
    for (VirtualDevice* const device : devices) checking->attach(*device);
    checking->attach(machine.executor());
  }
  const RunTimeline timeline{options.timeline,
                             {.device = std::string{devices.front()->name()},
                              .allocator = options.allocator,
                              .copy = options.copy,
                              .more = {{"ranks", std::to_string(ranks)}}},
                             &machine,
                             std::vector<Device*>{devices.begin(), devices.end()}};
  ThreadRanks groups{
      ranks, machine, {.link = {.bytes_per_second = profile.peer_to_peer}, .cost_only = false}};
  run_ranks(machine.executor(), ranks, [&](unsigned rank) {
    TrainingOptions of_rank = options;
    // The timeline has all devices (`timeline` above), but the bytes of one allocator only: that of
    // rank 0.
    if (rank != 0) of_rank.timeline = nullptr;
    TrainingDevice device{
        of_rank, {*devices[rank], machine.executor(), checking.has_value() ? &*checking : nullptr}};
    const std::unique_ptr<ProcessGroup> group = groups.join(rank, device.ordered());
    body(device, *group);
    device.ordered().synchronize();
    group->barrier();  // a timeline is stopped while no work is queued
    if (of_rank.timeline != nullptr) of_rank.timeline->stop();
    group->barrier();
  });
}

}  // namespace millrace
