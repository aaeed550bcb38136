#include "observe/early_lanes.hpp"

#include <algorithm>

namespace millrace {

EarlyLanes::EarlyLanes(const AllocationTrace& trace, const ConflictGraph& graph)
    : ordering_(trace.ordering()) {
  for (Lane lane = 0; lane < graph.lane_count(); ++lane) {
    lane_of_.emplace(graph.block(graph.nodes_of(lane).front()).user, lane);
  }
}

std::span<const EarlyLanes::Lane> EarlyLanes::of(const TracedBlock& block) {
  lanes_.clear();
  const auto last = std::ranges::max_element(
      block.free_points, {}, [&](Point point) { return ordering_.completed_from(point); });
  if (last == block.free_points.end()) return lanes_;
  add(last->stream);
  for (const StreamId stream : ordering_.observers_of(last->stream.slot)) add(stream);
  std::ranges::sort(lanes_);
  lanes_.erase(std::unique(lanes_.begin(), lanes_.end()), lanes_.end());
  return lanes_;
}

void EarlyLanes::add(StreamId stream) {
  const auto lane = lane_of_.find(stream);
  if (lane != lane_of_.end()) lanes_.push_back(lane->second);
}

}  // namespace millrace
