#pragma once

#include <cstddef>
#include <vector>

#include "millrace/observe/conflict_graph.hpp"

namespace millrace {

/** How many bytes of a trace's segments were reserved, and how many of these were ever allocated.
 */
struct SegmentUse {
  std::size_t reserved_peak = 0;
  /** Peak, over time, of the reserved addresses that were allocated at any time in the window. It
   * is the size of the layout that the program had. */
  std::size_t layout_peak = 0;
};

[[nodiscard]] SegmentUse measure_segments(const AllocationTrace& trace, const ConflictGraph& graph,
                                          const TraceWindow& window);

}  // namespace millrace
