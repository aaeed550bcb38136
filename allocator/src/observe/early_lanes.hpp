#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "millrace/observe/conflict_graph.hpp"

namespace millrace {

/**
 * @brief Finds the lanes that may reuse a block before its free is complete.
 *
 * A free is complete when its last point is complete. So only the stream of that point may reuse
 * the block earlier, and streams that were ordered after it. Other lanes are not visited.
 */
class EarlyLanes {
 public:
  using Lane = ConflictGraph::Lane;

  EarlyLanes(const AllocationTrace& trace, const ConflictGraph& graph);

  /** @return ascending; valid until the next call */
  [[nodiscard]] std::span<const Lane> of(const TracedBlock& block);

 private:
  void add(StreamId stream);

  const OrderingHistory& ordering_;
  std::unordered_map<StreamId, Lane> lane_of_;
  std::vector<Lane> lanes_;
};

}  // namespace millrace
