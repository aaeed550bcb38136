#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

namespace millrace::ship {

/**
 * @brief Gives the commit of a step its wall-clock time: rows that changed before that time were
 * delivered, or are counted as missing.
 *
 * This is the time at which the training thread had enqueued the step, because the updates of later
 * steps come after it. Thread-safe.
 */
class StepTimes {
 public:
  /** @param step  current step of the tables */
  explicit StepTimes(std::uint64_t step) { done(step); }

  /** @brief Records that the step is enqueued, and no later one. */
  void done(std::uint64_t step) {
    const std::uint64_t now = now_ms();
    const std::lock_guard lock{mutex_};
    if (!steps_.empty() && steps_.back().step >= step) return;
    if (steps_.size() == kMost) thin_out();
    steps_.push_back({step, now});
  }
  /**
   * @brief Returns the time of a step's commit, in milliseconds since 1970. Steps must ascend from
   * call to call.
   */
  [[nodiscard]] std::uint64_t of(std::uint64_t step) {
    const std::lock_guard lock{mutex_};
    while (steps_.size() > 1 && steps_[1].step <= step) steps_.pop_front();
    // The step is still being enqueued, so no later step is enqueued either.
    const bool under_way = steps_.size() == 1 && steps_.front().step < step;
    return under_way ? now_ms() : steps_.front().at_ms;
  }

 private:
  /** More steps than the host is usually ahead of the device. */
  static constexpr std::size_t kMost = 4096;
  struct Done {
    std::uint64_t step = 0, at_ms = 0;
  };

  // A step without a time gets that of a step before it: a time that is too early claims less than
  // what was delivered, a later one would claim too much.
  void thin_out() {
    std::deque<Done> kept;
    for (std::size_t i = 0; i < steps_.size(); i += 2) kept.push_back(steps_[i]);
    if (kept.back().step != steps_.back().step) kept.push_back(steps_.back());
    steps_.swap(kept);
  }

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
