#include "schedule/footprint/cell_memory.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "millrace/pipeline/schedule/footprint.hpp"

namespace millrace {
namespace {

Policy policy_of(const CellMemoryOptions& options) {
  if (options.policy) return *options.policy;
  if (options.allocator == "torch") return Policy::torch();
  if (options.allocator == "millrace") return Policy::millrace();
  throw std::invalid_argument{fmt::format("no allocator is called '{}'; there are {}",
                                          options.allocator, fmt::join(kAllocatorNames, ", "))};
}

}  // namespace

CellMemory::CellMemory(OrderedDevice& device, const CellMemoryOptions& options)
    : device_source_(device.device()),
      pinned_source_(device.device()),
      pinned_(device, pinned_source_, Policy::pinned()),
      trace_({.keep = options.keep}) {
  const bool driver = options.allocator == "driver" && !options.policy;
  if (driver || options.method == CopyMethod::driver_async) {
    driver_ = std::make_unique<DriverAllocator>(device);
    driver_->observe(&trace_.second());
  }
  if (!driver) {
    caching_ = std::make_unique<CachingAllocator>(device, device_source_, policy_of(options));
    caching_->observe(&trace_.first());
  }
  if (options.checking != nullptr) {
    check(*options.checking, device.device());
  } else if (options.check) {
    checking_ = std::make_unique<CheckingObserver>();
    checking_->attach(device.device());
    if (options.executor != nullptr) checking_->attach(*options.executor);
    check(*checking_, device.device());
  }
}

CellMemory::~CellMemory() {
  if (driver_) driver_->observe(nullptr);
  if (caching_) caching_->observe(nullptr);
}

Allocator& CellMemory::memory() {
  if (checked_) return *checked_;
  return caching_ ? static_cast<Allocator&>(*caching_) : *driver_;
}

std::optional<std::vector<std::string>> CellMemory::races() const {
  if (!checking_) return std::nullopt;
  std::vector<std::string> messages;
  for (const RaceChecker::Race& race : checking_->races()) messages.push_back(race.message);
  return messages;
}

// The driver's pool is not made of traced segments, and the two together have no peak of their
// own: theirs is what was sampled before each launch, and at the least what was live.
Ladder CellMemory::ladder(std::size_t reserved) const {
  const TraceWindow kept{.begin = trace().complete_from()};
  if (!driver_) return attribute(trace(), {.window = kept});
  Ladder ladder =
      attribute(trace(), {.window = kept, .reuse_proves_order = true, .reserved = reserved});
  ladder.reserved = std::max(ladder.reserved, ladder.rounded);
  ladder.ordered = std::max(ladder.ordered, ladder.rounded);
  ladder.packed = std::max(ladder.packed, ladder.ordered);
  return ladder;
}

void CellMemory::check(CheckingObserver& checking, Device& device) {
  if (caching_) checked_ = std::make_unique<CheckedAllocator>(*caching_, checking, device);
  checked_pinned_ =
      std::make_unique<CheckedAllocator>(pinned_, checking, device, CheckedMemory::pinned);
}

}  // namespace millrace
