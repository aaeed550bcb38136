#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "memory/heap.hpp"
#include "memory/meter.hpp"
#include "millrace/device/ordered_device.hpp"
#include "millrace/memory/observer.hpp"

namespace millrace {

/** @brief Reports the allocator's events to its observer, if it has one. Callers hold the lock. */
class Reports {
 public:
  Reports(const OrderedDevice& device, const Meter& meter) : device_(device), meter_(meter) {}

  void send_to(AllocationObserver* observer) noexcept { observer_ = observer; }
  [[nodiscard]] bool any() const noexcept { return observer_ != nullptr; }

  /** @brief Reports that the live block was given out; `user` uses it first. */
  void allocated(const Block& block, StreamId user) const {
    if (any()) report_allocated(block, user);
  }
  void use_recorded(std::uint64_t id, StreamId stream) const {
    if (any()) observer_->use_recorded(id, stream);
  }
  /** @param was  what was known of the block while it was live */
  void freed(const WhileLive& was, const Block& block, std::span<const Point> points) const {
    if (any()) observer_->freed({was.id, block.address, block.bytes, points});
  }
  void acquired(void* base, std::size_t bytes) const {
    if (any()) observer_->segment_acquired(base, bytes);
  }
  void released(void* base, std::size_t bytes) const {
    if (any()) observer_->segment_released(base, bytes);
  }
  void moved(void* to, void* from, std::size_t bytes) const {
    if (any()) observer_->pages_moved(to, from, bytes);
  }

  /** @brief Reports each segment and each live block to `observer`, as if they were new. */
  void report_all(const Heap& heap, AllocationObserver& observer) const;

 private:
  void report_allocated(const Block& block, StreamId user) const;

  const OrderedDevice& device_;
  const Meter& meter_;
  AllocationObserver* observer_ = nullptr;
};

}  // namespace millrace
