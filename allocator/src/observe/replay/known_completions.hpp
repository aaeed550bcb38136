#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/**
 * @brief When the work of a recorded program was known to be complete, from its synchronizations,
 *        queries and completed frees.
 *
 * Positions number the steps and events of a log together, in their order, from 0.
 */
class KnownCompletions {
 public:
  KnownCompletions(const trace::AllocationLog& log, std::uint32_t device);

  /** @brief Returns the first time at which all work that was enqueued on `stream` before
   * `position` was known to be complete; nothing if it never was. */
  [[nodiscard]] std::optional<std::int64_t> time_us(std::uint32_t stream,
                                                    std::size_t position) const;

 private:
  struct Known {
    std::size_t until = 0;  // all work before this position is complete
    std::int64_t time_us = 0;
  };
  std::map<std::uint32_t, std::vector<Known>> streams_;  // both members ascend
};

/** @brief Calls `step` and `event` for each step and event of a log, in their order. */
template <typename Step, typename Event>
void in_order(const trace::AllocationLog& log, const Step& step, const Event& event) {
  auto next = log.order.begin();
  for (std::size_t i = 0; i < log.events.size(); ++i) {
    for (; next != log.order.end() && next->before <= i; ++next) step(*next);
    event(log.events[i]);
  }
  for (; next != log.order.end(); ++next) step(*next);
}

}  // namespace millrace
