#include "observe/replay/start_layout.hpp"

namespace millrace {
namespace {

// Addresses of each range: more than any GPU has memory.
constexpr std::size_t kAddresses = std::size_t{1} << 40;

CachingAllocator::SegmentLayout layout_of(const trace::TorchSegment& segment, StreamRef lane) {
  CachingAllocator::SegmentLayout out;
  out.base = reinterpret_cast<void*>(segment.address);
  out.bytes = segment.bytes;
  out.small = !segment.large;
  out.stream = lane;
  out.in_range = segment.expandable;
  for (const trace::TorchBlock& block : segment.blocks) {
    out.blocks.push_back({static_cast<std::size_t>(block.address - segment.address),
                          static_cast<std::size_t>(block.bytes),
                          static_cast<std::size_t>(block.requested),
                          block.state != trace::BlockState::inactive});
  }
  return out;
}

void add_range(const ExpandableRange& range, ReplayLanes& lanes, TraceDevice& memory,
               StartLayout& start) {
  if (range.since != ExpandableRange::kFromTheStart) {
    start.later_ranges[range.since] = range.base;
    return;
  }
  memory.adopt_range(range.base);
  start.ranges.push_back({.base = reinterpret_cast<void*>(range.base),
                          .bytes = kAddresses / range.page * range.page,
                          .page = range.page,
                          .small = range.small,
                          .stream = lanes.of(range.stream, range.pool)});
}

}  // namespace

StartLayout recorded_start(const trace::AllocationLog& log, std::uint32_t device,
                           const std::optional<std::vector<ExpandableRange>>& ranges,
                           ReplayLanes& lanes, TraceDevice& memory) {
  StartLayout start;
  std::unordered_map<std::uint64_t, std::uint32_t> at_start;
  for (std::uint32_t i = 0; i < log.blocks.size(); ++i) {
    const trace::LoggedBlock& block = log.blocks[i];
    if (block.device == device && block.live_at_start) at_start[block.address] = i;
  }
  for (const trace::TorchSegment& segment : log.initial[device].segments) {
    if (segment.expandable && !ranges) continue;
    start.segments.push_back(layout_of(segment, lanes.of(segment)));
    for (const trace::TorchBlock& block : segment.blocks) {
      const auto it = at_start.find(block.address);
      if (block.state == trace::BlockState::inactive || it == at_start.end()) continue;
      start.live[it->second] = reinterpret_cast<void*>(block.address);
    }
    if (segment.expandable) {
      memory.adopt_pages(segment.address, segment.bytes);
    } else {
      memory.adopt(segment.address, segment.bytes);
    }
  }
  if (!ranges) return start;
  for (const ExpandableRange& range : *ranges) add_range(range, lanes, memory, start);
  return start;
}

}  // namespace millrace
