#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "millrace/device/executor.hpp"

namespace millrace::ship {

/**
 * @brief The phases of a shipper. It runs; it closes (steps have until a deadline, and more steps
 * may still be offered); it ends (no more steps are offered); it is finished. It never goes back.
 *
 * Thread safety: any thread. Reading never waits for the shipper's own mutex, which is locked while
 * rows are merged.
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
  /**
   * @brief Call after `close` when no more steps are offered: the shipper delivers its last steps.
   */
  void end() {
    Phase closing = Phase::closing;
    phase_.compare_exchange_strong(closing, Phase::ending);
  }
  /** @param why  why the sink was given up; empty: it was not */
  void finish(std::string why) {
    {
      const std::lock_guard lock{mutex_};
      given_up_ = std::move(why);
    }
    phase_ = Phase::finished;
  }

  [[nodiscard]] bool running() const noexcept { return phase_ == Phase::running; }
  /** @return true from `close` until the shipper is finished */
  [[nodiscard]] bool closing() const noexcept {
    const Phase phase = phase_;
    return phase == Phase::closing || phase == Phase::ending;
  }
  [[nodiscard]] bool ending() const noexcept { return phase_ == Phase::ending; }
  [[nodiscard]] bool finished() const noexcept { return phase_ == Phase::finished; }
  [[nodiscard]] bool out_of_time() const { return closing() && executor_.now().count() >= until_; }
  /** @return why the sink was given up; empty: it was not, or not yet */
  [[nodiscard]] std::string given_up() const {
    if (!finished()) return {};
    const std::lock_guard lock{mutex_};
    return given_up_;
  }

 private:
  enum class Phase { running, closing, ending, finished };

  Executor& executor_;
  std::atomic<Phase> phase_ = Phase::running;
  std::atomic<Nanoseconds::rep> until_ = 0;
  mutable std::mutex mutex_;
  std::string given_up_;
};

}  // namespace millrace::ship
