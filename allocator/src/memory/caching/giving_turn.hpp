#pragma once

#include <atomic>
#include <thread>

#include "memory/caching/unlocked.hpp"
#include "millrace/device/mutex.hpp"
#include "millrace/device/ordered_device.hpp"

namespace millrace {

/**
 * @brief One thread at a time gives memory back.
 *
 * Memory on its way to the device is neither free here nor there: a request that ran out would fail
 * for want of it. So it waits for its turn first. Who gives back only to save memory does not wait.
 */
class GivingOrder {
 public:
  /**
   * @brief The calling thread's turn. It may have it already, as giving back has several steps.
   *
   * Drops the allocator's lock where another thread has the turn. A host callback goes on without
   * one: whoever has it may be waiting for work that the callback holds up.
   */
  class Turn {
   public:
    Turn(GivingOrder& order, Lock& lock) : order_(order) {
      if (order.holder_.load(std::memory_order_relaxed) == std::this_thread::get_id()) return;
      if (!order.mutex_.try_lock()) {
        if (in_host_callback()) return;
        const Unlocked unlocked{lock};
        order.mutex_.lock();
      }
      order.holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
      began_ = true;
    }
    /** @brief Without a wait: `has` tells whether the thread has the turn. */
    Turn(GivingOrder& order, std::try_to_lock_t) : order_(order) {
      has_ = order.holder_.load(std::memory_order_relaxed) == std::this_thread::get_id();
      if (has_ || !order.mutex_.try_lock()) return;
      order.holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
      has_ = began_ = true;
    }
    ~Turn() {
      if (!began_) return;
      order_.holder_.store({}, std::memory_order_relaxed);
      order_.mutex_.unlock();
    }
    [[nodiscard]] bool has() const noexcept { return has_; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    GivingOrder& order_;
    bool has_ = true;  // false: another thread has it, and this one did not wait
    bool began_ = false;
  };

 private:
  Mutex mutex_;  // taken before the allocator's lock
  std::atomic<std::thread::id> holder_{};
};

}  // namespace millrace
