#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/operation.hpp"
#include "engine/schedule.hpp"

namespace millrace::virtual_cuda {

/**
 * @brief Enqueued work and its order: a graph of operations.
 *
 * An operation runs in the thread whose call makes it due: a call that waits runs what it needs,
 * and a schedule may run more. Host functions run in a thread of their own without the lock,
 * because they may take any time and may wait for other threads. If a program waits for the device
 * without a call (it polls memory, or a condition that a host function sets), a third thread runs
 * the pending work after kIdle without a call.
 */
class Engine {
 public:
  /** @brief How long a call that need not wait still waits for a host function. */
  static constexpr std::chrono::milliseconds kGrace{20};
  static constexpr std::chrono::milliseconds kIdle{100};
  /** @brief Most pending operations. An enqueue above this number runs the oldest operation. */
  static constexpr std::size_t kQueueDepth = 1024;

  Engine(const Settings& settings, const DeviceProfile& profile);

  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }
  [[nodiscard]] Schedule& schedule() noexcept { return *schedule_; }
  /** @brief Whether nothing is pending or held. It always includes the calling thread's work. */
  [[nodiscard]] bool idle() const noexcept { return busy_.load(std::memory_order_acquire) == 0; }
  /** @brief Makes `idle` false until `unhold`: calls must look for captures. */
  void hold();
  void unhold();

  /** @brief Adds an operation that may run once `after` is done. Call `announce` next. */
  [[nodiscard]] OperationRef add(Work work, unsigned device, std::uint64_t stream_id,
                                 const std::vector<OperationRef>& after);
  /**
   * @brief Reports an added operation to the schedule, which may run it at once.
   *
   * The lock may be released while a host function runs. Before the call, the operation must
   * therefore be the one that later work waits for (the stream's tail).
   */
  void announce(Lock& lock, const OperationRef& operation);

  /**
   * @brief Adds an operation that a running operation enqueues. The schedule plans it at once. It
   *        runs when another operation or a call needs it.
   */
  [[nodiscard]] OperationRef add_within(Work work, unsigned device,
                                        const std::vector<OperationRef>& after);
  /** @brief Makes `later`, which waits for the running operation, wait for `earlier` as well. */
  void delay(Operation& later, const OperationRef& earlier);

  /** @brief The calling thread waits until `operation` is done. */
  void wait(Lock& lock, const OperationRef& operation);
  void wait_for_all(Lock& lock);
  /** @brief The answer to a program's query: whether `operation` is done. The schedule may still
   *         answer "no" for work that could run. */
  [[nodiscard]] bool query(Lock& lock, const OperationRef& operation);

  enum class Patience { none, grace, forever };
  /** @brief Runs what `operation` needs, in the schedule's order. @return whether it is done */
  bool complete(Lock& lock, const OperationRef& operation, Patience patience);
  /** @brief Runs operations in order of their numbers while one is ready. */
  void run_ready(Lock& lock);
  [[nodiscard]] const std::map<std::uint64_t, OperationRef>& pending() const noexcept {
    return pending_;
  }
  /** @brief Whether `operation` is ordered after `earlier` by edges of pending operations. */
  [[nodiscard]] bool ordered(const OperationRef& operation, const OperationRef& earlier);

  /** @brief Numbers of operations and of queries, in the order of the calls. */
  [[nodiscard]] std::uint64_t next_number() noexcept { return ++numbers_; }
  [[nodiscard]] std::uint64_t numbers() const noexcept { return numbers_; }
  [[nodiscard]] std::uint64_t finished() const noexcept { return finished_; }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool ready(const Operation& operation) const;
  std::vector<Operation*> needed(Operation& target);
  void run(Lock& lock, Operation& operation);
  void finish(Operation& operation);
  void publish_busy() noexcept;
  void call_host_functions();
  void run_when_idle();
  void start_idle_thread();

  std::mutex mutex_;
  std::condition_variable changed_;   // an operation is done
  std::condition_variable to_call_;   // a host function is to be called
  std::condition_variable activity_;  // work is pending
  std::unique_ptr<Schedule> schedule_;
  bool deferring_;
  std::map<std::uint64_t, OperationRef> pending_;
  std::size_t holds_ = 0;
  std::atomic<std::size_t> busy_{0};  // pending operations and holds
  std::deque<OperationRef> host_functions_;
  bool caller_started_ = false;
  bool idler_started_ = false;
  std::uint64_t numbers_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t searches_ = 0;
  std::uint64_t delays_ = 0;
  std::uint64_t calls_ = 0;  // calls of this class: unchanged while the program is idle
};

}  // namespace millrace::virtual_cuda
