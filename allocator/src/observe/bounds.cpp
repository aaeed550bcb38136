#include "millrace/observe/bounds.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

#include "observe/byte_flow.hpp"

namespace millrace {

namespace {

using Node = ConflictGraph::Node;
using Lane = ConflictGraph::Lane;

/** Of the placed nodes, which lie before a node and last beyond it: a heap-shaped tree of maxima.
 */
class LastingTree {
 public:
  explicit LastingTree(Node size) : leaves_(std::bit_ceil(std::max<Node>(size, 1))) {
    until_.assign(std::size_t{2} * leaves_, 0);
  }

  void place(Node node, Node until) {
    for (std::size_t at = leaves_ + node; at > 0; at /= 2) until_[at] = std::max(until_[at], until);
  }

  template <typename Visit>
  void visit_lasting(Node beyond, Visit visit) const {
    visit_below(1, leaves_, beyond, beyond, visit);
  }

 private:
  template <typename Visit>
  void visit_below(std::size_t at, Node width, Node end, Node beyond, Visit& visit) const {
    if (end == 0 || until_[at] <= beyond) return;
    if (width == 1) return visit(static_cast<Node>(at - leaves_));
    const Node half = width / 2;
    visit_below(2 * at, half, std::min(end, half), beyond, visit);
    visit_below(2 * at + 1, half, end > half ? end - half : 0, beyond, visit);
  }

  Node leaves_;
  std::vector<Node> until_;
};

/** Finds the placed nodes in conflict with one. The lanes with most nodes have a tree each, that
 * knows how long blocks last for them; the others share one that knows how long blocks last at all.
 */
class PlacedConflicts {
 public:
  explicit PlacedConflicts(const ConflictGraph& graph)
      : graph_(graph), placed_(graph.size()), tree_of_(graph.lane_count(), 0) {
    constexpr std::size_t most_trees = 16;
    std::vector<Lane> lanes(graph.lane_count());
    std::iota(lanes.begin(), lanes.end(), Lane{0});
    std::ranges::stable_sort(lanes, std::ranges::greater{},
                             [&](Lane lane) { return graph.nodes_of(lane).size(); });
    if (lanes.size() > most_trees) lanes.resize(most_trees);
    trees_.assign(lanes.size() + 1, LastingTree{graph.size()});
    for (std::size_t i = 0; i < lanes.size(); ++i) tree_of_[lanes[i]] = i + 1;
    lane_of_tree_ = std::move(lanes);
  }

  void place(Node node) {
    placed_[node] = true;
    trees_[0].place(node, graph_.released_from(node));
    for (std::size_t i = 0; i < lane_of_tree_.size(); ++i) {
      trees_[i + 1].place(node, graph_.released_from(node, lane_of_tree_[i]));
    }
  }

  template <typename Visit>
  void visit(Node node, Visit visit) const {
    trees_[tree_of_[graph_.lane(node)]].visit_lasting(node, [&](Node earlier) {
      if (graph_.conflict(earlier, node)) visit(earlier);
    });
    for (Lane lane = 0; lane < graph_.lane_count(); ++lane) {
      const auto nodes = graph_.nodes_of(lane);
      const Node until = graph_.released_from(node, lane);
      for (auto later = std::ranges::upper_bound(nodes, node);
           later != nodes.end() && *later < until; ++later) {
        if (placed_[*later]) visit(*later);
      }
    }
  }

 private:
  const ConflictGraph& graph_;
  std::vector<bool> placed_;
  std::vector<LastingTree> trees_;
  std::vector<Lane> lane_of_tree_;
  std::vector<std::size_t> tree_of_;
};

struct Extent {
  std::size_t begin, end;
};

std::size_t lowest_gap(std::vector<Extent>& around, std::size_t bytes) {
  std::ranges::sort(around, {}, &Extent::begin);
  std::size_t offset = 0;
  for (const Extent& extent : around) {
    if (extent.begin >= offset + bytes) break;
    offset = std::max(offset, extent.end);
  }
  return offset;
}

std::vector<Node> by_falling_size(const ConflictGraph& graph) {
  std::vector<Node> order(graph.size());
  std::iota(order.begin(), order.end(), Node{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](Node node) {
    return std::tuple{graph.bytes(node), graph.released_from(node) - node};
  });
  return order;
}

}  // namespace

std::vector<Node> heaviest_conflicting_set(const ConflictGraph& graph) {
  return ByteFlow{graph}.minimum_cut();
}

ConflictPacking pack_by_size(const ConflictGraph& graph) {
  ConflictPacking packing{.offsets = std::vector<std::size_t>(graph.size()), .bytes = 0};
  PlacedConflicts conflicts{graph};
  std::vector<Extent> around;
  for (const Node node : by_falling_size(graph)) {
    around.clear();
    conflicts.visit(node, [&](Node other) {
      around.push_back({packing.offsets[other], packing.offsets[other] + graph.bytes(other)});
    });
    packing.offsets[node] = lowest_gap(around, graph.bytes(node));
    packing.bytes = std::max(packing.bytes, packing.offsets[node] + graph.bytes(node));
    conflicts.place(node);
  }
  return packing;
}

}  // namespace millrace
