#include "capture/delivery_queue.hpp"

#include <cassert>
#include <utility>

#include "capture/wait_until.hpp"

namespace millrace::capture {

DeliveryQueue::DeliveryQueue(Executor& executor, std::size_t slots,
                             std::function<void(const Delivery&)> handle)
    : executor_(executor), handle_(std::move(handle)), changed_(executor.make_condition()) {
  // Between two deliveries with a slot, at most one without is queued.
  queue_.reserve(2 * slots + 1);
}

void DeliveryQueue::start() {
  copier_ = executor_.spawn("copier", [this] { run(); });
}

void DeliveryQueue::push(const Delivery& delivery) {
  {
    const std::lock_guard lock{mutex_};
    // Of successive steps without rows only the newest matters, so the queue cannot outgrow its
    // memory.
    if (!delivery.slot && !queue_.empty() && !queue_.back().slot) {
      queue_.back() = delivery;
    } else {
      assert(queue_.size() < queue_.capacity());
      queue_.push_back(delivery);
    }
    executor_.released(this);
  }
  changed_->notify_all();
}

void DeliveryQueue::run() {
  std::unique_lock lock{mutex_};
  while (true) {
    while (queue_.empty() && !ending_) changed_->wait(lock);
    if (queue_.empty()) return;
    const Delivery next = queue_.front();
    queue_.erase(queue_.begin());
    busy_ = true;
    executor_.acquired(this);
    lock.unlock();
    handle_(next);
    lock.lock();
    busy_ = false;
    executor_.released(this);
    changed_->notify_all();
  }
}

bool DeliveryQueue::wait_idle(Nanoseconds patience) {
  // A Condition has no time-out, so a limited wait polls.
  if (patience != Nanoseconds::max()) {
    return wait_until(executor_, patience, [&] {
      const std::lock_guard lock{mutex_};
      return idle();
    });
  }
  std::unique_lock lock{mutex_};
  while (!idle()) changed_->wait(lock);
  return true;
}

void DeliveryQueue::stop() {
  // Captured steps are delivered before the thread ends.
  static_cast<void>(wait_idle(Nanoseconds::max()));
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
  }
  changed_->notify_all();
  copier_->join();
}

}  // namespace millrace::capture
