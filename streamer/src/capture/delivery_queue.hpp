#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "capture/dirty_protocol.hpp"
#include "millrace/device/executor.hpp"

namespace millrace::capture {

/** @brief One step for the copier to deliver, with the rows of a slot or without rows. */
struct Delivery {
  std::uint64_t step = 0;
  std::optional<std::size_t> slot{};
  bool more = false;  ///< another delivery of the same step follows
  DirtyPoint dirty{};
};

/**
 * @brief The queue between the training thread and the copier, and the copier's actor.
 *
 * Thread safety: a mutex of its own, which is not locked while a delivery is handled. Only the
 * training thread calls `push`, `wait_idle` and `stop`. Everything before `push` happens before the
 * handling.
 *
 * Its memory is allocated by the constructor. A delivery that could not be queued would leave its
 * slot taken forever, so `push` must not fail when the host runs out of memory.
 */
class DeliveryQueue {
 public:
  /** @param slots   maximum number of deliveries with a slot that wait at the same time
   *  @param handle  called by the copier for each delivery, in order; does not throw */
  DeliveryQueue(Executor& executor, std::size_t slots, std::function<void(const Delivery&)> handle);
  /** @brief Starts the copier. Call it when everything that `handle` uses exists. */
  void start();

  /** @brief Adds a delivery. Of successive steps without rows, only the last one is delivered. */
  void push(const Delivery& delivery);
  /** @brief Waits until all deliveries were handled. @return false after `patience` */
  bool wait_idle(Nanoseconds patience);
  /** @brief Waits for all deliveries and ends the copier. @throws what the executor throws */
  void stop();

 private:
  void run();
  [[nodiscard]] bool idle() const { return queue_.empty() && !busy_; }  ///< with the mutex locked

  Executor& executor_;
  const std::function<void(const Delivery&)> handle_;
  std::mutex mutex_;
  const std::unique_ptr<Condition> changed_;
  std::vector<Delivery> queue_;  ///< a few; its capacity is what can wait at most
  bool busy_ = false, ending_ = false;
  std::unique_ptr<Executor::Task> copier_;
};

}  // namespace millrace::capture
