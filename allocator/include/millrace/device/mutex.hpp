#pragma once

#include <atomic>
#include <cstdint>

#include "millrace/ordering/adaptive_mutex.hpp"

namespace millrace {

/**
 * @brief Decides how a thread waits for a lock that another thread holds. An executor sets it for
 *        each thread.
 */
class LockWaiting {
 public:
  virtual ~LockWaiting() = default;
  /** @brief Returns when `mutex` may be free; may also return early. */
  virtual void wait(const void* mutex) = 0;
  /** @brief Wakes the threads that wait for `mutex`. */
  virtual void notify(const void* mutex) = 0;

  /** @brief Returns the calling thread's object; nullptr on an ordinary thread. */
  static LockWaiting*& of_this_thread() noexcept {
    static thread_local LockWaiting* waiting = nullptr;
    return waiting;
  }
};

/**
 * @brief A mutex that may be held across device and executor calls.
 *
 * On ordinary threads it costs an AdaptiveMutex and one relaxed load. The actors of a
 * VirtualMachine run one at a time. If one of them waits for this mutex, the others run; waiting
 * for a std::mutex or an AdaptiveMutex whose holder is suspended would stop the machine. Meets the
 * requirements of Lockable.
 */
class Mutex {
 public:
  void lock() {
    if (!mutex_.try_lock()) lock_contended();
  }
  [[nodiscard]] bool try_lock() { return mutex_.try_lock(); }
  void unlock() {
    mutex_.unlock();
    if (waiting_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      if (LockWaiting* waiting = LockWaiting::of_this_thread()) waiting->notify(this);
    }
  }

 private:
  void lock_contended() {
    LockWaiting* waiting = LockWaiting::of_this_thread();
    if (waiting == nullptr) return mutex_.lock();
    struct Counted {
      explicit Counted(std::atomic<std::uint32_t>& of) : count(of) { ++count; }
      ~Counted() { --count; }
      std::atomic<std::uint32_t>& count;
    } counted{waiting_};
    while (!mutex_.try_lock()) waiting->wait(this);
  }

  AdaptiveMutex mutex_;
  std::atomic<std::uint32_t> waiting_{0};  ///< waiting actors of a virtual machine
};

}  // namespace millrace
