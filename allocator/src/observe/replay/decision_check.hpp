#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/observe/replay.hpp"

namespace millrace {

/** @brief Compares the decisions of an allocator with those of PyTorch's that the log has. */
class DecisionCheck {
 public:
  /** @brief Notes a new segment of the log. The next request needs it. */
  void expect_segment(std::size_t bytes) { expected_.push_back(bytes); }
  /**
   * @brief Counts one request.
   * @param recorded  the address that PyTorch gave it
   * @param taken     bytes of each segment that the replay took for it
   * @param ours      the address that the replay gave it
   */
  void compare(const trace::LogEvent& event, std::uint64_t recorded, std::vector<std::size_t> taken,
               std::uint64_t ours);

  [[nodiscard]] const ReplayDecisions& decisions() const noexcept { return decisions_; }

 private:
  void compare_segments(const trace::LogEvent& event, std::vector<std::size_t> taken);
  void differs(const trace::LogEvent& event, const std::string& how);

  ReplayDecisions decisions_;
  std::vector<std::size_t> expected_;  ///< segments since the last request that was compared
};

}  // namespace millrace
