#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "millrace/device/executor.hpp"

namespace millrace::ship {

/**
 * @brief The life of a shipper: it runs, then closes (queued steps have until a deadline), then is
 *        finished. It never goes back.
 *
 * Thread safety: any thread. Reading it never waits for the shipper's own mutex, which is held
 * while rows are merged.
 */
class Lifecycle {
 public:
  explicit Lifecycle(Executor& executor) : executor_(executor) {}

  /** @brief Sets the deadline, on the executor's clock. */
  void close(Nanoseconds at_most) {
    until_ = (executor_.now() + at_most).count();
    Phase running = Phase::running;
    phase_.compare_exchange_strong(running, Phase::closing);
  }
  /** @param why  the sink was given up; empty: it was not */
  void finish(std::string why) {
    {
      const std::lock_guard lock{mutex_};
      given_up_ = std::move(why);
    }
    phase_ = Phase::finished;
  }

  [[nodiscard]] bool running() const noexcept { return phase_ == Phase::running; }
  [[nodiscard]] bool closing() const noexcept { return phase_ == Phase::closing; }
  [[nodiscard]] bool finished() const noexcept { return phase_ == Phase::finished; }
  [[nodiscard]] bool out_of_time() const { return closing() && executor_.now().count() >= until_; }
  /** @return why the sink was given up; empty: it was not, or not yet */
  [[nodiscard]] std::string given_up() const {
    if (!finished()) return {};
    const std::lock_guard lock{mutex_};
    return given_up_;
  }

 private:
  enum class Phase { running, closing, finished };

  Executor& executor_;
  std::atomic<Phase> phase_ = Phase::running;
  std::atomic<Nanoseconds::rep> until_ = 0;
  mutable std::mutex mutex_;
  std::string given_up_;
};

}  // namespace millrace::ship
