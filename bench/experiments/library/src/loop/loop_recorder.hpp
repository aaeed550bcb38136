#pragma once

#include <vector>

#include "loop/loop_work.hpp"

namespace millrace::experiment {

/** @brief Records the steps of a loop, and makes the report. */
class LoopRecorder {
 public:
  LoopRecorder(LoopWork& work, std::size_t warm_up) : work_(work), warm_up_(warm_up) {}

  /** @brief Call it when the host has enqueued a step. @param held  number of batches held then */
  void step_ended(std::size_t held);
  /** @brief Synchronizes the device. @param at_peak  maximum number of batches held at any time */
  [[nodiscard]] LoopReport report(std::size_t at_peak);

 private:
  using Calls = std::array<std::uint64_t, static_cast<std::size_t>(Call::count_)>;
  [[nodiscard]] Calls calls() const;

  LoopWork& work_;
  const std::size_t warm_up_;
  std::vector<std::size_t> main_work_;  ///< number of pieces of work on main up to each step's end
  std::size_t at_rest_ = 0;
  std::vector<UsableBytes> usable_;
  Calls calls_at_start_{}, calls_at_end_{};
};

}  // namespace millrace::experiment
