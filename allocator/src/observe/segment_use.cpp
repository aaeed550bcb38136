#include "observe/segment_use.hpp"

#include <algorithm>
#include <map>

namespace millrace {

namespace {

struct Extent {
  std::uintptr_t begin, end;
};

std::size_t union_of(std::vector<Extent> extents) {
  std::ranges::sort(extents, {}, &Extent::begin);
  std::size_t bytes = 0;
  std::uintptr_t reached = 0;
  for (const Extent& extent : extents) {
    if (extent.end <= reached) continue;
    bytes += extent.end - std::max(extent.begin, reached);
    reached = extent.end;
  }
  return bytes;
}

/** Groups the nodes by their segment: its index in the trace's segments, or the number of segments
 * for a node in none. */
std::vector<std::vector<Extent>> extents_by_segment(const AllocationTrace& trace,
                                                    const ConflictGraph& graph) {
  const auto segments = trace.segments();
  std::vector<std::vector<Extent>> extents(segments.size() + 1);
  const auto end_of = [&](std::size_t i) { return segments[i].base + segments[i].bytes; };
  std::map<std::uintptr_t, std::size_t> held;
  std::size_t next = 0;
  for (ConflictGraph::Node node = 0; node < graph.size(); ++node) {
    const TracedBlock& block = graph.block(node);
    for (; next < segments.size() && segments[next].acquired < block.allocated; ++next) {
      const TracedSegment& segment = segments[next];  // replaces earlier ones at these addresses
      auto first = held.lower_bound(segment.base);
      while (first != held.begin() && end_of(std::prev(first)->second) > segment.base) --first;
      held.erase(first, held.lower_bound(segment.base + segment.bytes));
      held.emplace(segment.base, next);
    }
    const std::uintptr_t end = block.address + block.bytes;
    std::uintptr_t at = block.address;
    auto holder = held.upper_bound(at);
    if (holder != held.begin()) --holder;
    for (; at < end && holder != held.end(); ++holder) {  // several if a range grew
      const TracedSegment& segment = segments[holder->second];
      if (segment.base > at || end_of(holder->second) <= at) break;
      if (segment.released <= block.allocated) break;
      const std::uintptr_t until = std::min(end, end_of(holder->second));
      extents[holder->second].push_back({at, until});
      at = until;
    }
    if (at < end) extents.back().push_back({at, end});
  }
  return extents;
}

struct Change {
  TracePosition position;
  std::size_t segment;
  bool acquired;
};

}  // namespace

SegmentUse measure_segments(const AllocationTrace& trace, const ConflictGraph& graph,
                            const TraceWindow& window) {
  const auto segments = trace.segments();
  std::vector<std::size_t> given_out;
  for (auto& extents : extents_by_segment(trace, graph)) {
    given_out.push_back(union_of(std::move(extents)));
  }
  std::vector<Change> changes;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].acquired > window.end || segments[i].released <= window.begin) continue;
    changes.push_back({std::max(segments[i].acquired, window.begin), i, true});
    if (segments[i].released <= window.end) changes.push_back({segments[i].released, i, false});
  }
  std::ranges::sort(changes, {}, &Change::position);

  const std::size_t elsewhere = given_out.back();
  std::size_t reserved = elsewhere;
  std::size_t layout = elsewhere;
  SegmentUse use{reserved, layout};
  for (const auto& [position, segment, acquired] : changes) {
    const std::size_t sign = acquired ? 1 : -std::size_t{1};  // unsigned arithmetic wraps
    reserved += sign * segments[segment].bytes;
    layout += sign * given_out[segment];
    use.reserved_peak = std::max(use.reserved_peak, reserved);
    use.layout_peak = std::max(use.layout_peak, layout);
  }
  return use;
}

}  // namespace millrace
