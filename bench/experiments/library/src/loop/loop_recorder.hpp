#pragma once

#include <vector>

#include "loop/loop_work.hpp"

namespace millrace::experiment {

/** @brief Records what a loop does in each step, and makes the report. */
class LoopRecorder {
 public:
  LoopRecorder(LoopWork& work, std::size_t warm_up) : work_(work), warm_up_(warm_up) {}

  /** @brief Call it when the host has enqueued all of a step. @param held  batches it holds then */
  void step_ended(std::size_t held);
  /** @brief Synchronizes the device. @param at_peak  the most batches held at any moment */
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
