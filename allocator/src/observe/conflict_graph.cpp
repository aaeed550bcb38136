#include "millrace/observe/conflict_graph.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "observe/address_history.hpp"
#include "observe/early_lanes.hpp"
#include "observe/reuse_check.hpp"

namespace millrace {

namespace {

using Node = ConflictGraph::Node;
using Lane = ConflictGraph::Lane;

TracePosition completed_from(const TracedBlock& block, const OrderingHistory& ordering) {
  TracePosition from = block.freed;
  for (const Point point : block.free_points) {
    from = std::max(from, ordering.completed_from(point));
  }
  return from;
}

TracePosition available_from(Point point, StreamId stream, const OrderingHistory& ordering) {
  if (point.stream == stream) return 0;
  return std::min(ordering.ordered_from(point, stream), ordering.completed_from(point));
}

TracePosition available_from(const TracedBlock& block, StreamId stream,
                             const OrderingHistory& ordering) {
  TracePosition from = block.freed;
  for (const Point point : block.free_points) {
    from = std::max(from, available_from(point, stream, ordering));
  }
  return from;
}

bool in_window(TracePosition position, const TraceWindow& window) {
  return position > window.begin && position <= window.end;
}

}  // namespace

struct ConflictGraph::Selection {
  struct Candidate {
    std::uint32_t block;
    TracePosition completed;
  };
  struct FirstUse {
    StreamId stream;
    TracePosition position;
  };
  std::vector<Candidate> candidates;
  std::vector<FirstUse> first_in_window;  // by position

  Selection(const AllocationTrace& trace, const Options& options) {
    const auto blocks = trace.blocks();
    std::unordered_set<StreamId> seen;
    for (std::uint32_t i = 0; i < blocks.size(); ++i) {
      const TracedBlock& block = blocks[i];
      if (block.allocated > options.window.end) break;
      const TracePosition completed = millrace::completed_from(block, trace.ordering());
      if (completed <= options.window.begin) continue;
      candidates.push_back({i, completed});
      if (in_window(block.allocated, options.window) && seen.insert(block.user).second) {
        first_in_window.push_back({block.user, block.allocated});
      }
    }
    std::erase_if(candidates, [&](const Candidate& candidate) {
      return blocks[candidate.block].freed <= options.window.begin &&
             !reaches_window(candidate, trace, options.rule);
    });
  }

  /** Returns whether a block freed before the window conflicts with a block in it. Most streams
   * were never seen ordered after it: one of them answers this. */
  [[nodiscard]] bool reaches_window(const Candidate& candidate, const AllocationTrace& trace,
                                    ReuseRule rule) const {
    for (const auto& [stream, position] : first_in_window) {
      if (position >= candidate.completed) return false;
      if (rule == ReuseRule::host_time) return true;
      const TracedBlock& block = trace.blocks()[candidate.block];
      if (position < available_from(block, stream, trace.ordering())) return true;
    }
    return false;
  }
};

ConflictGraph::ConflictGraph(const AllocationTrace& trace, const Options& options)
    : trace_(&trace), rule_(options.rule) {
  const Selection selection{trace, options};
  number_nodes(selection);
  find_releases(selection);
  if (options.reuse_proves_order) trust_reuse();
}

void ConflictGraph::number_nodes(const Selection& selection) {
  std::unordered_map<StreamId, Lane> lane_of;
  for (const auto& candidate : selection.candidates) {
    const StreamId user = trace_->blocks()[candidate.block].user;
    const auto [lane, is_new] = lane_of.emplace(user, lane_count());
    if (is_new) nodes_of_.emplace_back();
    nodes_of_[lane->second].push_back(size());
    lanes_.push_back(lane->second);
    blocks_.push_back(candidate.block);
  }
}

void ConflictGraph::find_releases(const Selection& selection) {
  const auto first_after = [&](TracePosition position) {  // position itself may profit
    const auto found = std::ranges::lower_bound(
        blocks_, position, {}, [&](std::uint32_t i) { return trace_->blocks()[i].allocated; });
    return static_cast<Node>(found - blocks_.begin());
  };
  early_.resize(size());
  EarlyLanes early_lanes{*trace_, *this};
  for (Node node = 0; node < size(); ++node) {
    const Node last = first_after(selection.candidates[node].completed);
    released_.push_back(last);
    const Node freed = first_after(block(node).freed);
    if (rule_ == ReuseRule::host_time || freed >= last) continue;
    for (const Lane lane : early_lanes.of(block(node))) {
      const auto next = std::ranges::lower_bound(nodes_of_[lane], freed);
      if (next == nodes_of_[lane].end() || *next >= last) continue;
      const StreamId stream = block(*next).user;
      const Node from = first_after(available_from(block(node), stream, trace_->ordering()));
      if (from < last) early_[node].push_back({lane, from});
    }
  }
}

void ConflictGraph::trust_reuse() {
  AddressHistory history{moves()};
  for (Node later = 0; later < size(); ++later) {
    history.move_until(block(later).allocated);
    const auto keep = [&](Node earlier) { return released_[earlier] > later; };
    for (const Node earlier : history.take(block(later).address, block(later).bytes, later, keep)) {
      if (!conflict(earlier, later)) continue;
      std::vector<Release>& early = early_[earlier];
      const auto at = std::ranges::lower_bound(early, lanes_[later], {}, &Release::lane);
      if (at != early.end() && at->lane == lanes_[later]) {
        at->from = later;
      } else {
        early.insert(at, {lanes_[later], later});
      }
    }
  }
}

std::span<const ConflictGraph::Release> ConflictGraph::released_early(Node node) const {
  return early_[node];
}

Node ConflictGraph::released_from(Node node, Lane lane) const {
  const auto early = std::ranges::lower_bound(early_[node], lane, {}, &Release::lane);
  return early != early_[node].end() && early->lane == lane ? early->from : released_[node];
}

bool ConflictGraph::conflict(Node a, Node b) const {
  if (a > b) std::swap(a, b);
  return a != b && b < released_[a] && b < released_from(a, lanes_[b]);
}

Point ConflictGraph::missing_point(Node earlier, Node later) const {
  const TracedBlock& old = block(earlier);
  const TracedBlock& next = block(later);
  if (old.freed > next.allocated) return {};
  for (const Point point : old.free_points) {
    const TracePosition from = rule_ == ReuseRule::host_time
                                   ? trace_->ordering().completed_from(point)
                                   : available_from(point, next.user, trace_->ordering());
    if (from > next.allocated) return point;
  }
  return {};
}

std::vector<BlockPair> find_illegal_reuse(const AllocationTrace& trace, ReuseRule rule) {
  const ConflictGraph graph{trace, {.window = {trace.complete_from(), kNever}, .rule = rule}};
  if (!check_reuse(graph).illegal) return {};
  const TracedBlock* const first = trace.blocks().data();
  std::vector<BlockPair> found;
  AddressHistory history{graph.moves()};
  for (Node later = 0; later < graph.size(); ++later) {
    const TracedBlock& block = graph.block(later);
    history.move_until(block.allocated);
    const auto keep = [&](Node earlier) { return graph.released_from(earlier) > later; };
    for (const Node earlier : history.take(block.address, block.bytes, later, keep)) {
      if (!graph.conflict(earlier, later)) continue;
      found.push_back({static_cast<std::size_t>(&graph.block(earlier) - first),
                       static_cast<std::size_t>(&block - first)});
    }
  }
  return found;
}

}  // namespace millrace
