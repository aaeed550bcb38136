#pragma once

#include <atomic>
#include <cstdint>

namespace millrace {

/**
 * @brief A mutex that many calls take, mostly for up to a few hundred instructions.
 *
 * Meets the requirements of Lockable; not recursive and not fair. Without contention, `lock` and
 * `unlock` are one inlined atomic operation each. A thread that finds the mutex taken spins for a
 * few microseconds at first, because sleeping and waking up takes longer than most critical
 * sections. Then it sleeps until the mutex is released.
 *
 * Do not hold it across a device or executor call: the actors of a VirtualMachine run one at a
 * time, and one that waits here does not let the holder run. `Mutex` is for that.
 */
class AdaptiveMutex {
 public:
  AdaptiveMutex() = default;
  AdaptiveMutex(const AdaptiveMutex&) = delete;
  AdaptiveMutex& operator=(const AdaptiveMutex&) = delete;

  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  [[nodiscard]] bool try_lock() noexcept {
    std::uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void unlock() noexcept {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]]
      wake();
  }

 private:
  static constexpr std::uint32_t kFree = 0, kTaken = 1;
  static constexpr std::uint32_t kAwaited = 2;  // taken, and threads may sleep
  static constexpr int kSpins = 100;

  static void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  // Separate functions, so that `lock` and `unlock` stay short enough to be inlined.
  [[gnu::noinline]] void wait() noexcept {
    for (int spins = 0; spins < kSpins; ++spins) {
      pause();
      if (state_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
    }
    // A thread that has slept does not know whether others sleep too, so it takes the mutex as
    // awaited: its `unlock` may wake a thread in vain, but never misses one.
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
      state_.wait(kAwaited, std::memory_order_relaxed);
    }
  }
  [[gnu::noinline]] void wake() noexcept { state_.notify_one(); }

  std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace millrace
