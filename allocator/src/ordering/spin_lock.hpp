#pragma once

#include <atomic>
#include <thread>

namespace millrace {

/**
 * @brief A lock of one byte, for critical sections of a few dozen instructions that never block.
 *
 * Meets the requirements of Lockable. A thread that waits yields its processor from time to time,
 * because the system may have suspended the holder.
 */
class SpinLock {
 public:
  void lock() noexcept {
    if (!take()) [[unlikely]]
      wait();
  }
  /**
   * @brief Does the same as `try_lock`, for a lock that is hardly ever taken: it saves one load.
   */
  [[nodiscard]] bool take() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }
  [[nodiscard]] bool try_lock() noexcept {
    return !taken_.load(std::memory_order_relaxed) && take();
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 64;

  // A separate function, so that `lock` stays short enough to be inlined.
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
