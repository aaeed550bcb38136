#pragma once

#include <vector>

#include "millrace/device/operation.hpp"

namespace millrace::experiment {

struct TimeSpan {
  Nanoseconds begin{0};
  Nanoseconds end{0};
};

/**
 * @brief How much of the copies' time no main-stream work covers, between `window.begin` and
 *        `window.end`; both lists are in order of begin.
 */
struct Exposure {
  Nanoseconds copies{0};   ///< time in which at least one copy runs
  Nanoseconds exposed{0};  ///< of that, time in which main runs nothing
};
[[nodiscard]] Exposure exposure(const std::vector<TimeSpan>& copies,
                                const std::vector<TimeSpan>& main, TimeSpan window);

}  // namespace millrace::experiment
