#include "millrace/pipeline/schedule/footprint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <stdexcept>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/driver_allocator.hpp"
#include "millrace/memory/segment_source.hpp"

namespace millrace {
namespace {

Policy policy_of(const FootprintCell& cell) {
  if (cell.policy) return *cell.policy;
  if (cell.allocator == "torch") return Policy::torch();
  if (cell.allocator == "millrace") return Policy::millrace();
  throw std::invalid_argument{fmt::format("no allocator is called '{}'; there are {}",
                                          cell.allocator, fmt::join(kAllocatorNames, ", "))};
}

/** The allocators of a cell, on one device. */
class CellMemory {
 public:
  CellMemory(OrderedDevice& device, const FootprintCell& cell)
      : device_source_(device.device()),
        pinned_source_(device.device()),
        pinned_(device, pinned_source_, Policy::pinned()) {
    const bool driver = cell.allocator == "driver" && !cell.policy;
    if (driver || cell.loop.method == CopyMethod::driver_async) {
      driver_ = std::make_unique<DriverAllocator>(device);
    }
    if (!driver) {
      caching_ = std::make_unique<CachingAllocator>(device, device_source_, policy_of(cell));
    }
  }

  [[nodiscard]] Allocator& memory() {
    return caching_ ? static_cast<Allocator&>(*caching_) : *driver_;
  }
  [[nodiscard]] Allocator& batches() {
    return driver_ ? static_cast<Allocator&>(*driver_) : *caching_;
  }
  [[nodiscard]] Allocator& pinned() { return pinned_; }

 private:
  DeviceSource device_source_;
  PinnedSource pinned_source_;
  CachingAllocator pinned_;
  std::unique_ptr<DriverAllocator> driver_;
  std::unique_ptr<CachingAllocator> caching_;
};

VirtualDevice::Options virtual_options(std::string_view name, const Workload& workload) {
  VirtualDevice::Options options;
  options.profile = DeviceProfile::named(name);
  if (workload.run_ahead > 0) options.launch_queue_depth = workload.run_ahead;
  options.data = false;
  return options;
}

FootprintRun run_cell(const FootprintCell& cell, const Workload& workload,
                      std::span<const BatchSizes> batches, Device& device, LoopClock& clock) {
  OrderedDevice ordered{device};
  CellMemory memory{ordered, cell};
  FootprintRun run;
  run.allocator = cell.allocator;
  run.method = cell.loop.method;
  run.modelled = device.modelled();
  run.loop = run_training_loop(workload, batches,
                               {.device = ordered,
                                .allocator = memory.memory(),
                                .batches = memory.batches(),
                                .pinned = memory.pinned(),
                                .clock = clock},
                               cell.loop);
  run.counts = memory.memory().statistics().counts;
  return run;
}

}  // namespace

FootprintRun run_footprint(const FootprintCell& cell, const Workload& workload,
                           std::span<const BatchSizes> batches) {
  constexpr std::string_view prefix = "virtual:";
  if (!std::string_view{cell.device}.starts_with(prefix)) {
    throw std::invalid_argument{fmt::format("no device is called '{}'; there are virtual:{}",
                                            cell.device,
                                            fmt::join(DeviceProfile::names(), ", virtual:"))};
  }
  VirtualMachine machine;
  VirtualDevice& device =
      machine.add_device(virtual_options(cell.device.substr(prefix.size()), workload));
  TimelineClock clock{machine, kMainStream};
  return run_cell(cell, workload, batches, device, clock);
}

}  // namespace millrace
