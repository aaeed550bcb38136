#pragma once

#include <vector>

#include "millrace/device/operation.hpp"

namespace millrace::experiment {

struct TimeSpan {
  Nanoseconds begin{0};
  Nanoseconds end{0};
};

/**
 * @brief The time of copies, and the part of it that is not hidden by work on main.
 *
 * For `window.begin` to `window.end`; both lists must be in order of `begin`.
 */
struct Exposure {
  Nanoseconds copies{0};   ///< time in which at least one copy runs
  Nanoseconds exposed{0};  ///< part of `copies` in which main runs nothing
};
[[nodiscard]] Exposure exposure(const std::vector<TimeSpan>& copies,
                                const std::vector<TimeSpan>& main, TimeSpan window);

}  // namespace millrace::experiment
