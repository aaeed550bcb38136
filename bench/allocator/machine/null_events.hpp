#pragma once

#include <atomic>
#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <vector>

#include "allocator/machine/mapped_pages.hpp"
#include "millrace/device/device.hpp"

namespace millrace::bench {

/// Events of a device that does no work. The program decides when each event completes.
class NullEvents {
 public:
  /// Makes as many events as most cases need, so that few calls ask the system for host memory.
  NullEvents();

  [[nodiscard]] EventHandle create();
  void destroy(EventHandle event);

  void record(EventHandle event) noexcept {
    at(event).store(step_.load(std::memory_order_relaxed) + lag_, std::memory_order_relaxed);
  }
  [[nodiscard]] bool complete(EventHandle event) const noexcept {
    const std::uint64_t step = at(event).load(std::memory_order_relaxed);
    return step == 0 || (!busy() && step <= step_.load(std::memory_order_relaxed));
  }
  void force(EventHandle event) noexcept { at(event).store(0, std::memory_order_relaxed); }

  [[nodiscard]] bool busy() const noexcept { return busy_.load(std::memory_order_relaxed); }
  void set_busy(bool busy) noexcept { busy_ = busy; }
  void set_lag(std::uint64_t steps) noexcept { lag_ = steps; }
  void end_step() noexcept { ++step_; }

 private:
  using Event = std::atomic<std::uint64_t>;  // step that completes it; 0: not recorded

  static Event& at(EventHandle event) noexcept { return *static_cast<Event*>(event.value); }

  MappedPages pages_;
  std::pmr::monotonic_buffer_resource memory_{std::size_t{1} << 16, &pages_};
  std::mutex mutex_;
  std::pmr::vector<Event*> unused_{&pages_};
  std::atomic<bool> busy_ = false;
  std::atomic<std::uint64_t> step_ = 1;
  std::uint64_t lag_ = 0;
};

}  // namespace millrace::bench
