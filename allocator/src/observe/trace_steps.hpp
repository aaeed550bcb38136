#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "millrace/observe/allocation_trace.hpp"

/// @file
/// Shared by the code that goes through a trace in order. A step has a `position`, a kind (`what`)
/// and the `index` of its segment or block. Of two steps at one position, the lesser `what` is
/// first.

namespace millrace::trace_steps {

/** @brief Adds a step, unless its position is `kNever`. */
template <typename Step, typename What>
void add(std::vector<Step>& steps, TracePosition position, What what, std::size_t index) {
  if (position != kNever) steps.push_back({.position = position, .what = what, .index = index});
}

/** @brief Adds the acquisition and the release of each segment. */
template <typename Step, typename What>
void add_segments(std::vector<Step>& steps, const AllocationTrace& trace, What acquired,
                  What released) {
  for (std::size_t i = 0; i < trace.segments().size(); ++i) {
    add(steps, trace.segments()[i].acquired, acquired, i);
    add(steps, trace.segments()[i].released, released, i);
  }
}

template <typename Step>
void sort(std::vector<Step>& steps) {
  std::ranges::stable_sort(steps, [](const Step& a, const Step& b) {
    return std::pair{a.position, a.what} < std::pair{b.position, b.what};
  });
}

/** @brief Returns the first position at which the uses of a freed block are known to be complete,
 *         of those uses that `counts` accepts. */
template <typename Counts>
TracePosition completed_from(const AllocationTrace& trace, const TracedBlock& block,
                             Counts&& counts) {
  TracePosition from = block.freed + 1;
  for (const Point point : block.free_points) {
    if (counts(point)) from = std::max(from, trace.ordering().completed_from(point));
  }
  return from;
}

}  // namespace millrace::trace_steps
