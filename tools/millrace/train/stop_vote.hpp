#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "millrace/pipeline/collective/process_group.hpp"

namespace millrace::cli {

/**
 * @brief All ranks stop at the same step once one was asked to: each tells the others every few
 *        steps, and hears of them at the next such step, so that nobody waits.
 */
class StopVote {
 public:
  explicit StopVote(ProcessGroup& group) : group_(group) {}

  /** @brief Before each step, on every rank. */
  void step(bool asked) {
    if (stop_ || steps_++ % kEvery != 0) return;
    finish();
    if (stop_) return;
    told_ =
        group_.start_sizes(RankState::ok, std::vector<std::int64_t>(group_.size(), asked ? 1 : 0));
  }
  [[nodiscard]] bool stop() const noexcept { return stop_; }
  /** @brief Hears of the last one, on every rank: to be called before this goes. */
  void finish() {
    if (!told_) return;
    const ExchangedSizes heard = std::exchange(told_, nullptr)->wait();
    stop_ = std::ranges::any_of(heard.values, [](std::int64_t asked) { return asked != 0; });
  }

 private:
  static constexpr std::uint64_t kEvery = 8;

  ProcessGroup& group_;
  std::unique_ptr<PendingSizes> told_;
  std::uint64_t steps_ = 0;
  bool stop_ = false;
};

}  // namespace millrace::cli
