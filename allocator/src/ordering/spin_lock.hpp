#pragma once

#include <atomic>
#include <thread>

namespace millrace {

/**
 * @brief A lock of one byte for a few dozen instructions. Nothing that may wait is called under it.
 *
 * Meets the requirements of Lockable. A thread that finds it taken gives its processor away:
 * the holder may be one that the system has put aside.
 */
class SpinLock {
 public:
  void lock() noexcept {
    if (!take()) [[unlikely]]
      wait();
  }
  /** @brief As `try_lock`, for a lock that is hardly ever taken. */
  [[nodiscard]] bool take() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }
  [[nodiscard]] bool try_lock() noexcept {
    return !taken_.load(std::memory_order_relaxed) && take();
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 64;

  // Not a part of `lock`, whose callers are short.
  [[gnu::noinline]] void wait() noexcept {
    int spins = 0;
    do {
      while (taken_.load(std::memory_order_relaxed)) {
        if (++spins % kSpins == 0) std::this_thread::yield();
      }
    } while (!take());
  }

  std::atomic<bool> taken_{false};
};

}  // namespace millrace
