#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

namespace millrace::ship {

/**
 * @brief Up to which instant of the wall clock the commit of a step speaks for: rows that changed
 *        before it were delivered, or are counted as missing.
 *
 * The update of a later step cannot have been made before the instant at which the training thread
 * had enqueued this one. Thread-safe.
 */
class StepTimes {
 public:
  /** @param step  of the tables as they are */
  explicit StepTimes(std::uint64_t step) { done(step); }

  /** @brief The step was enqueued, and no later one. */
  void done(std::uint64_t step) {
    const std::uint64_t now = now_ms();
    const std::lock_guard lock{mutex_};
    if (!steps_.empty() && steps_.back().step >= step) return;
    if (steps_.size() == kMost) steps_.pop_front();
    steps_.push_back({step, now});
  }
  /** @brief Milliseconds since 1970 that the commit of a step says. Steps ascend from call to call.
   */
  [[nodiscard]] std::uint64_t of(std::uint64_t step) {
    const std::lock_guard lock{mutex_};
    while (steps_.size() > 1 && steps_[1].step <= step) steps_.pop_front();
    // Not enqueued to its end yet: no later one is, either.
    const bool under_way = steps_.size() == 1 && steps_.front().step < step;
    return under_way ? now_ms() : steps_.front().at_ms;
  }

 private:
  static constexpr std::size_t kMost = 4096;  ///< steps that a host is ahead of the device, at most
  struct Done {
    std::uint64_t step = 0, at_ms = 0;
  };

  static std::uint64_t now_ms() {
    using std::chrono::milliseconds;
    return static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(
                                          std::chrono::system_clock::now().time_since_epoch())
                                          .count());
  }

  std::mutex mutex_;
  std::deque<Done> steps_;  ///< not empty
};

}  // namespace millrace::ship
