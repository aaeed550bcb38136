#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "millrace/pipeline/collective/process_group.hpp"

namespace millrace::cli {

/**
 * @brief Makes all ranks stop after the same step when one of them is asked to stop.
 *
 * Every eighth step each rank sends the others whether it was asked, and reads their answers eight
 * steps later. The answers have usually arrived by then, so ranks rarely wait for each other.
 */
class StopVote {
 public:
  explicit StopVote(ProcessGroup& group) : group_(group) {}

  /** @brief Call it before each step, on every rank. @param asked  whether this rank was asked to
   *         stop */
  void step(bool asked) {
    if (stop_ || steps_++ % kEvery != 0) return;
    finish();
    if (stop_) return;
    told_ =
        group_.start_sizes(RankState::ok, std::vector<std::int64_t>(group_.size(), asked ? 1 : 0));
  }
  [[nodiscard]] bool stop() const noexcept { return stop_; }
  /** @brief Reads the answers in flight. Call it after the last step, on every rank. */
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
