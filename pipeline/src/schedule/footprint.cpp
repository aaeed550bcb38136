#include "millrace/pipeline/schedule/footprint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/driver_allocator.hpp"
#include "millrace/memory/segment_source.hpp"
#include "millrace/observe/checked_allocator.hpp"
#include "schedule/combined_trace.hpp"
#include "schedule/footprint_device.hpp"

namespace millrace {
namespace {

Policy policy_of(const FootprintCell& cell) {
  if (cell.policy) return *cell.policy;
  if (cell.allocator == "torch") return Policy::torch();
  if (cell.allocator == "millrace") return Policy::millrace();
  throw std::invalid_argument{fmt::format("no allocator is called '{}'; there are {}",
                                          cell.allocator, fmt::join(kAllocatorNames, ", "))};
}

/** The allocators of a cell, on one device, a trace of those of device memory, and a race checker
 * where it sees all that orders them. */
class CellMemory {
 public:
  CellMemory(OrderedDevice& device, const FootprintCell& cell)
      : device_source_(device.device()),
        pinned_source_(device.device()),
        pinned_(device, pinned_source_, Policy::pinned()) {
    const bool driver = cell.allocator == "driver" && !cell.policy;
    if (driver || cell.loop.method == CopyMethod::driver_async) {
      driver_ = std::make_unique<DriverAllocator>(device);
      driver_->observe(&trace_.second());
    }
    if (!driver) {
      caching_ = std::make_unique<CachingAllocator>(device, device_source_, policy_of(cell));
      caching_->observe(&trace_.first());
    }
    if (!driver_ && device.device().modelled()) check(device.device());
  }
  ~CellMemory() {
    if (driver_) driver_->observe(nullptr);
    if (caching_) caching_->observe(nullptr);
  }
  CellMemory(const CellMemory&) = delete;
  CellMemory& operator=(const CellMemory&) = delete;

  [[nodiscard]] Allocator& memory() {
    if (checked_) return *checked_;
    return caching_ ? static_cast<Allocator&>(*caching_) : *driver_;
  }
  [[nodiscard]] Allocator& batches() { return driver_ ? *driver_ : memory(); }
  [[nodiscard]] Allocator& pinned() {
    return checked_pinned_ ? static_cast<Allocator&>(*checked_pinned_) : pinned_;
  }

  [[nodiscard]] std::optional<std::vector<std::string>> races() const {
    if (!checking_) return std::nullopt;
    std::vector<std::string> messages;
    for (const RaceChecker::Race& race : checking_->races()) messages.push_back(race.message);
    return messages;
  }

  // The driver's pool is not made of traced segments, and the two together have no peak of their
  // own: theirs is what was sampled before each launch, and at the least what was live.
  [[nodiscard]] Ladder ladder(std::size_t reserved) const {
    if (!driver_) return attribute(trace_.trace());
    const LadderOptions options{.reuse_proves_order = true, .reserved = reserved};
    Ladder ladder = attribute(trace_.trace(), options);
    ladder.reserved = std::max(ladder.reserved, ladder.rounded);
    ladder.ordered = std::max(ladder.ordered, ladder.rounded);
    ladder.packed = std::max(ladder.packed, ladder.ordered);
    return ladder;
  }

 private:
  void check(Device& device) {
    checking_ = std::make_unique<CheckingObserver>();
    checking_->attach(device);
    checked_ = std::make_unique<CheckedAllocator>(*caching_, *checking_, device);
    checked_pinned_ =
        std::make_unique<CheckedAllocator>(pinned_, *checking_, device, CheckedMemory::pinned);
  }

  DeviceSource device_source_;
  PinnedSource pinned_source_;
  CachingAllocator pinned_;
  CombinedTrace trace_;
  std::unique_ptr<DriverAllocator> driver_;
  std::unique_ptr<CachingAllocator> caching_;
  std::unique_ptr<CheckingObserver> checking_;
  std::unique_ptr<CheckedAllocator> checked_, checked_pinned_;
};

/** Lets a timeline go before what it is attached to does. */
struct StopAtEnd {
  Timeline* timeline;
  ~StopAtEnd() {
    if (timeline != nullptr) timeline->stop();
  }
};

void attach(Timeline& timeline, const FootprintCell& cell, CellDevice& device) {
  timeline.note("device", device.device().name());
  timeline.note("times", device.device().modelled() ? "modelled" : "measured");
  timeline.note("allocator", cell.allocator);
  timeline.note("strategy", to_string(cell.loop.method));
  device.attach(timeline);
}

}  // namespace

FootprintRun run_footprint(const FootprintCell& cell, const Workload& workload,
                           std::span<const InputShape> batches) {
  const std::unique_ptr<CellDevice> on = CellDevice::open(cell.device, workload.run_ahead);
  const StopAtEnd stop{cell.timeline};
  if (cell.timeline != nullptr) attach(*cell.timeline, cell, *on);
  OrderedDevice ordered{on->device()};
  CellMemory memory{ordered, cell};
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
