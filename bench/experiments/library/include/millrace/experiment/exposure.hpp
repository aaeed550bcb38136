#pragma once

#include <vector>

#include "millrace/device/operation.hpp"

namespace millrace::experiment {

struct TimeSpan {
  Nanoseconds begin{0};
  Nanoseconds end{0};
};

/**
 * @brief The time of copies, and the part of it that work on main does not hide.
 *
 * The times are within the window. Both lists must be sorted by `begin`.
 */
struct Exposure {
  Nanoseconds copies{0};   ///< time in which at least one copy runs
  Nanoseconds exposed{0};  ///< part of `copies` in which main runs nothing
};
[[nodiscard]] Exposure exposure(const std::vector<TimeSpan>& copies,
                                const std::vector<TimeSpan>& main, TimeSpan window);

}  // namespace millrace::experiment
