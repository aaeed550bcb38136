#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "millrace/memory/caching_allocator.hpp"
#include "millrace/observe/trace/allocation_log.hpp"
#include "observe/replay/expandable_ranges.hpp"
#include "observe/replay/replay_lanes.hpp"
#include "observe/replay/trace_device.hpp"

namespace millrace {

/** @brief The recorded layout before the first event, as `CachingAllocator::restore` takes it. */
struct StartLayout {
  std::vector<CachingAllocator::SegmentLayout> segments;
  std::vector<CachingAllocator::RangeLayout> ranges;
  std::unordered_map<std::uint32_t, void*> live;  ///< addresses, by the log's block
  /** Base addresses of ranges that begin later, by the event that first needs them. */
  std::unordered_map<std::size_t, std::uint64_t> later_ranges;
};

/**
 * @brief Builds the layout from the log's snapshot, and gives its memory to the replay's device.
 * @param ranges  of expandable segments; without them, their segments are left out
 */
[[nodiscard]] StartLayout recorded_start(const trace::AllocationLog& log, std::uint32_t device,
                                         const std::optional<std::vector<ExpandableRange>>& ranges,
                                         ReplayLanes& lanes, TraceDevice& memory);

}  // namespace millrace
