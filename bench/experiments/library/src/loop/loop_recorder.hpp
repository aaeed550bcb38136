#pragma once

#include <vector>

#include "loop/loop_work.hpp"

namespace millrace::experiment {

/** @brief Takes down what a loop does step by step, and makes the report of it. */
class LoopRecorder {
 public:
  LoopRecorder(LoopWork& work, std::size_t warm_up) : work_(work), warm_up_(warm_up) {}

  /** @brief The host has enqueued all of a step, and holds so many batches. */
  void step_ended(std::size_t held);
  /** @brief Synchronises the device. @param at_peak  batches held at any moment, at most */
  [[nodiscard]] LoopReport report(std::size_t at_peak);

 private:
  using Calls = std::array<std::uint64_t, static_cast<std::size_t>(Call::count_)>;
  [[nodiscard]] Calls calls() const;

  LoopWork& work_;
  const std::size_t warm_up_;
  std::vector<std::size_t> main_work_;  ///< pieces of work on main up to each step's end
  std::size_t at_rest_ = 0;
  std::vector<UsableBytes> usable_;
  Calls calls_at_start_{}, calls_at_end_{};
};

}  // namespace millrace::experiment
