#pragma once

#include <cstddef>
#include <vector>

#include "millrace/observe/conflict_graph.hpp"

namespace millrace {

/** How much of the segments of a trace was held, and how much of that ever given out. Bytes. */
struct SegmentUse {
  std::size_t reserved_peak = 0;
  /** Peak, over time, of the addresses given out at any time of the window in what was held then:
   * the layout that there was. */
  std::size_t layout_peak = 0;
};

[[nodiscard]] SegmentUse measure_segments(const AllocationTrace& trace, const ConflictGraph& graph,
                                          const TraceWindow& window);

}  // namespace millrace
