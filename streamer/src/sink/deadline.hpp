#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace millrace::sink {

/** @brief The deadline of a network operation: its own end, or an earlier end that another thread
 *         sets for all operations. */
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  using Shared = std::atomic<Clock::rep>;
  static constexpr Clock::rep kNone = Clock::time_point::max().time_since_epoch().count();

  /** @param shared  outlives this */
  Deadline(Clock::duration time, const Shared& shared)
      : time_(std::chrono::ceil<std::chrono::milliseconds>(time)),
        end_(Clock::now() + time),
        shared_(shared) {}

  /** @brief Returns whether the end that is set for all operations has passed. */
  [[nodiscard]] static bool passed(const Shared& shared) {
    return Clock::now().time_since_epoch().count() >= shared.load();
  }

  [[nodiscard]] bool passed() const { return left() <= Clock::duration::zero(); }
  /**
   * @brief Returns true if the operation's own end has not passed: only the shared end can have.
   */
  [[nodiscard]] bool was_cut_short() const { return Clock::now() < end_; }
  /** @brief Returns the time to wait before the next check. */
  [[nodiscard]] std::chrono::milliseconds slice() const {
    constexpr std::chrono::milliseconds kLongest{20};
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(left());
    return std::clamp(rest, std::chrono::milliseconds{0}, kLongest);
  }
  /** @brief Returns the operation's own time limit. */
  [[nodiscard]] std::chrono::milliseconds whole() const { return time_; }

 private:
  [[nodiscard]] Clock::duration left() const {
    const Clock::time_point shared{Clock::duration{shared_.load()}};
    return std::min(end_, shared) - Clock::now();
  }

  std::chrono::milliseconds time_;
  Clock::time_point end_;
  const Shared& shared_;
};

/** @brief The shared end of operations that no other thread ends. */
inline const Deadline::Shared kNeverEnds{Deadline::kNone};

}  // namespace millrace::sink
