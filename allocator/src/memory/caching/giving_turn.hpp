#pragma once

#include <atomic>
#include <thread>

#include "memory/caching/unlocked.hpp"
#include "millrace/device/mutex.hpp"
#include "millrace/device/ordered_device.hpp"

namespace millrace {

/**
 * @brief Lets one thread at a time give memory back.
 *
 * Memory on its way to the device is neither free in the allocator nor free on the device. A
 * request that ran out of memory would fail because of that, so it waits for its turn first. A
 * request that gives memory back only to save memory does not wait.
 */
class GivingOrder {
 public:
  /**
   * @brief The calling thread's turn. Turns of one thread may be nested, because giving back has
   *        several steps.
   *
   * Waits without the allocator's lock while another thread has the turn. A host callback continues
   * without the turn: the thread that has it may be waiting for work that the callback blocks.
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
    /** @brief Does not wait; `has` returns whether the thread has the turn. */
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
    bool has_ = true;  // false: another thread has the turn, and this one did not wait
    bool began_ = false;
  };

 private:
  Mutex mutex_;  // taken before the allocator's lock
  std::atomic<std::thread::id> holder_{};
};

}  // namespace millrace
