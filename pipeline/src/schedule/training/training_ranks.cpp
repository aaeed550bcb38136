#include "millrace/pipeline/schedule/training_ranks.hpp"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/pipeline/collective/run_ranks.hpp"
#include "millrace/pipeline/collective/thread_group.hpp"
#include "millrace/pipeline/schedule/footprint.hpp"

namespace millrace {
namespace {

constexpr std::string_view kVirtual = "virtual:";

DeviceProfile profile_of(const std::string& device) {
  if (!footprint_device(device).modelled) {
    throw std::invalid_argument{fmt::format(
        "ranks of one process need a virtual device, not {}: use one process for each GPU",
        device)};
  }
  return DeviceProfile::named(device.substr(kVirtual.size()));
}

/** A timeline on a machine and its devices: lets go of them before they go. */
class Attached {
 public:
  Attached(Timeline* timeline, const TrainingOptions& options, VirtualMachine& machine,
           const std::vector<VirtualDevice*>& devices)
      : timeline_(timeline) {
    if (timeline_ == nullptr) return;
    timeline_->note("device", devices.front()->name());
    timeline_->note("times", "modelled");
    timeline_->note("allocator", options.allocator);
    timeline_->note("strategy", to_string(options.copy));
    timeline_->note("ranks", std::to_string(devices.size()));
    timeline_->attach(machine);
    for (VirtualDevice* const device : devices) timeline_->attach(*device);
  }
  ~Attached() {
    if (timeline_ != nullptr) timeline_->stop();
  }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  Timeline* const timeline_;
};

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
  const Attached attached{options.timeline, options, machine, devices};
  ThreadRanks groups{
      ranks, machine, {.link = {.bytes_per_second = profile.peer_to_peer}, .cost_only = false}};
  run_ranks(machine.executor(), ranks, [&](unsigned rank) {
    TrainingOptions of_rank = options;
    if (rank != 0) of_rank.timeline = nullptr;
    TrainingDevice device{
        of_rank, {*devices[rank], machine.executor(), checking.has_value() ? &*checking : nullptr}};
    const std::unique_ptr<ProcessGroup> group = groups.join(rank, device.ordered());
    body(device, *group);
    device.ordered().synchronize();
    group->barrier();  // a timeline stops while nothing is queued
    if (of_rank.timeline != nullptr) of_rank.timeline->stop();
    group->barrier();
  });
}

}  // namespace millrace
