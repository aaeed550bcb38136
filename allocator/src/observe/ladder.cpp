#include "millrace/observe/ladder.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <tuple>

#include "millrace/observe/bounds.hpp"
#include "observe/address_history.hpp"
#include "observe/segment_use.hpp"

namespace millrace {

namespace {

using Node = ConflictGraph::Node;

/** Sums blocks by tag, owner and the stream that they wait for, the largest sum first. */
class Shares {
 public:
  explicit Shares(const AllocationTrace& trace) : trace_(trace) {}

  LadderShare& of(const TracedBlock& block, StreamId waits_for = {}) {
    LadderShare& share = shares_[{block.tag, block.owner, waits_for}];
    share.tag = trace_.tag_name(block.tag);
    share.stream = block.owner;
    share.waits_for = waits_for;
    return share;
  }

  void add(const TracedBlock& block, StreamId waits_for = {}) {
    LadderShare& share = of(block, waits_for);
    ++share.blocks;
    share.bytes += block.bytes;
    share.requested += block.requested;
  }

  [[nodiscard]] std::vector<LadderShare> sorted() const {
    std::vector<LadderShare> shares;
    for (const auto& [key, share] : shares_) shares.push_back(share);
    std::ranges::stable_sort(shares, std::ranges::greater{}, &LadderShare::bytes);
    return shares;
  }

 private:
  const AllocationTrace& trace_;
  std::map<std::tuple<std::uint32_t, StreamId, StreamId>, LadderShare> shares_;
};

struct LivePeaks {
  std::size_t requested = 0;
  std::size_t rounded = 0;
  TracePosition rounded_at = 0;
};

LivePeaks find_live_peaks(const ConflictGraph& graph, const TraceWindow& window) {
  std::vector<Node> live;
  for (Node node = 0; node < graph.size(); ++node) {
    if (graph.block(node).freed > window.begin) live.push_back(node);
  }
  std::vector<Node> by_free = live;
  std::ranges::sort(by_free, {}, [&](Node node) { return graph.block(node).freed; });

  LivePeaks peaks;
  std::size_t requested = 0;
  std::size_t rounded = 0;
  auto freed = by_free.begin();
  for (const Node node : live) {
    const TracedBlock& block = graph.block(node);
    const TracePosition now = std::max(block.allocated, window.begin);
    requested += block.requested;
    rounded += block.bytes;
    for (; graph.block(*freed).freed <= now; ++freed) {
      requested -= graph.block(*freed).requested;
      rounded -= graph.block(*freed).bytes;
    }
    peaks.requested = std::max(peaks.requested, requested);
    if (rounded > peaks.rounded) {
      peaks.rounded = rounded;
      peaks.rounded_at = now;
    }
  }
  return peaks;
}

std::vector<Node> nodes_live_at(TracePosition position, const ConflictGraph& graph) {
  std::vector<Node> live;
  for (Node node = 0; node < graph.size(); ++node) {
    const TracedBlock& block = graph.block(node);
    if (block.allocated <= position && block.freed > position) live.push_back(node);
  }
  return live;
}

std::vector<LadderShare> live_at(TracePosition position, const ConflictGraph& graph,
                                 const AllocationTrace& trace) {
  Shares shares{trace};
  for (const Node node : nodes_live_at(position, graph)) shares.add(graph.block(node));
  return shares.sorted();
}

std::vector<LadderShare> shares_of(const std::vector<Node>& conflicting, const ConflictGraph& graph,
                                   const AllocationTrace& trace) {
  Shares shares{trace};
  for (const Node node : conflicting) {
    const Node last = conflicting.back();
    shares.add(graph.block(node),
               node == last ? StreamId{} : graph.missing_point(node, last).stream);
  }
  return shares.sorted();
}

std::vector<LadderShare> idle_at(TracePosition position, const ConflictGraph& graph,
                                 const AllocationTrace& trace) {
  AddressHistory history{trace.moves()};
  Node end = 0;
  for (; end < graph.size() && graph.block(end).allocated <= position; ++end) {
    history.move_until(graph.block(end).allocated);
    history.take(graph.block(end).address, graph.block(end).bytes, end, [](Node) { return false; });
  }
  history.move_until(position + 1);
  std::map<std::uintptr_t, std::uintptr_t> held;
  for (const TracedSegment& segment : trace.segments()) {
    if (segment.acquired <= position && segment.released > position) {
      held[segment.base] = segment.base + segment.bytes;
    }
  }
  Shares shares{trace};
  history.for_each_newest([&](std::uintptr_t begin, std::uintptr_t until, Node node) {
    const TracedBlock& block = graph.block(node);
    if (block.freed > position) return;
    auto piece = held.upper_bound(begin);
    if (piece != held.begin()) --piece;
    for (; piece != held.end() && piece->first < until; ++piece) {
      const std::uintptr_t from = std::max(begin, piece->first);
      const std::uintptr_t to = std::min(until, piece->second);
      if (from < to) shares.of(block).bytes += to - from;
    }
  });
  return shares.sorted();
}

std::size_t total_bytes(const std::vector<Node>& nodes, const ConflictGraph& graph) {
  std::size_t bytes = 0;
  for (const Node node : nodes) bytes += graph.bytes(node);
  return bytes;
}

}  // namespace

Ladder attribute(const AllocationTrace& trace, const LadderOptions& options) {
  const ConflictGraph graph{trace,
                            {.window = options.window,
                             .rule = options.rule,
                             .reuse_proves_order = options.reuse_proves_order}};
  assert(options.reuse_proves_order || find_illegal_reuse(trace, options.rule).empty());
  const LivePeaks live = find_live_peaks(graph, options.window);
  std::vector<Node> conflicting = heaviest_conflicting_set(graph);
  // The live blocks are a set of conflicting blocks, too. They are heavier than the set that the
  // search found only if the search was stopped early.
  if (total_bytes(conflicting, graph) < live.rounded) {
    conflicting = nodes_live_at(live.rounded_at, graph);
  }
  const SegmentUse segments = measure_segments(trace, graph, options.window);

  Ladder ladder;
  ladder.requested = live.requested;
  ladder.rounded = live.rounded;
  ladder.ordered = total_bytes(conflicting, graph);
  ladder.packed = std::min(pack_conflicts(graph).bytes, segments.layout_peak);
  ladder.reserved = options.reserved.value_or(segments.reserved_peak);
  if (options.reserved) {
    ladder.ordered = std::min(ladder.ordered, ladder.reserved);
    ladder.packed = std::min(ladder.packed, ladder.reserved);
  }
  ladder.at_peak = live_at(live.rounded_at, graph, trace);
  ladder.heaviest = shares_of(conflicting, graph, trace);
  ladder.idle = idle_at(live.rounded_at, graph, trace);
  return ladder;
}

}  // namespace millrace
