#include "millrace/pipeline/schedule/run_memory.hpp"

#include <algorithm>

#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/driver_allocator.hpp"
#include "millrace/memory/segment_source.hpp"
#include "millrace/observe/checked_allocator.hpp"
#include "millrace/text/parse_enum.hpp"
#include "schedule/run/combined_trace.hpp"

namespace millrace {
namespace {

Policy policy_of(const RunMemoryOptions& options) {
  if (options.policy) return *options.policy;
  if (options.allocator == "torch") return Policy::torch();
  if (options.allocator == "millrace") return Policy::millrace();
  text::refuse_name("allocator", options.allocator,
                    {kAllocatorNames.begin(), kAllocatorNames.end()});
}

}  // namespace

struct RunMemory::Parts {
  Parts(OrderedDevice& device, const RunMemoryOptions& options)
      : device_source(device.device()),
        pinned_source(device.device()),
        pinned(device, pinned_source, Policy::pinned()),
        trace({.keep = options.keep}),
        checking(options.checking) {
    const bool pool = options.allocator == "driver" && !options.policy;
    // The driver's pool serves all memory, or only batches if the copy strategy uses the pool.
    if (pool || traits_of(options.method).uses_driver_pool) {
      driver = std::make_unique<DriverAllocator>(device);
      driver->observe(&trace.second());
    }
    if (!pool) {
      caching = std::make_unique<CachingAllocator>(device, device_source, policy_of(options));
      caching->observe(&trace.first());
    }
    if (checking == nullptr && options.check) {
      own_checking = std::make_unique<CheckingObserver>();
      own_checking->attach(device.device());
      if (options.executor != nullptr) own_checking->attach(*options.executor);
      checking = own_checking.get();
    }
    if (checking != nullptr) check(device.device());
  }

  ~Parts() {
    if (driver) driver->observe(nullptr);
    if (caching) caching->observe(nullptr);
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  void check(Device& device) {
    // The driver's pool needs no wrapper: its allocations are calls of the device, which the
    // checker observes.
    if (caching) checked = std::make_unique<CheckedAllocator>(*caching, *checking, device);
    checked_pinned =
        std::make_unique<CheckedAllocator>(pinned, *checking, device, CheckedMemory::pinned);
  }

  DeviceSource device_source;
  PinnedSource pinned_source;
  CachingAllocator pinned;
  CombinedTrace trace;
  std::unique_ptr<DriverAllocator> driver;
  std::unique_ptr<CachingAllocator> caching;
  std::unique_ptr<CheckingObserver> own_checking;
  CheckingObserver* checking;
  std::unique_ptr<CheckedAllocator> checked, checked_pinned;
};

RunMemory::RunMemory(OrderedDevice& device, const RunMemoryOptions& options)
    : parts_(std::make_unique<Parts>(device, options)) {}

RunMemory::~RunMemory() = default;

Allocator& RunMemory::memory() noexcept {
  if (parts_->checked) return *parts_->checked;
  return parts_->caching ? static_cast<Allocator&>(*parts_->caching) : *parts_->driver;
}

Allocator& RunMemory::batches() noexcept { return parts_->driver ? *parts_->driver : memory(); }

Allocator& RunMemory::pinned() noexcept {
  return parts_->checked_pinned ? static_cast<Allocator&>(*parts_->checked_pinned) : parts_->pinned;
}

std::optional<std::vector<std::string>> RunMemory::races() const {
  if (parts_->checking == nullptr) return std::nullopt;
  return race_messages(*parts_->checking);
}

const AllocationTrace& RunMemory::trace() const noexcept { return parts_->trace.trace(); }

// The driver's pool has no traced segments, and two allocators together have no exact peak. The
// ladder uses the peak that was sampled before each launch, and at least the live bytes.
Ladder RunMemory::ladder(std::size_t reserved) const {
  const TraceWindow kept{.begin = trace().complete_from()};
  if (!parts_->driver) return attribute(trace(), {.window = kept});
  Ladder ladder =
      attribute(trace(), {.window = kept, .reuse_proves_order = true, .reserved = reserved});
  ladder.reserved = std::max(ladder.reserved, ladder.rounded);
  ladder.ordered = std::max(ladder.ordered, ladder.rounded);
  ladder.packed = std::max(ladder.packed, ladder.ordered);
  return ladder;
}

std::vector<std::string> race_messages(const CheckingObserver& checking) {
  std::vector<std::string> messages;
  for (const RaceChecker::Race& race : checking.races()) messages.push_back(race.message);
  return messages;
}

}  // namespace millrace
