#include "observe/packing/conflict_fit.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace millrace::packing {

namespace {

constexpr ConflictGraph::Node kNotEarly = std::numeric_limits<ConflictGraph::Node>::max();
constexpr std::size_t kMostTrees = 16;
constexpr std::size_t kLongestRun = 1024;
// Finding a node by time and sorting it, in nodes looked at by offset.
constexpr std::size_t kCostOfFinding = 16;
// Steps for a node looked at by offset.
constexpr std::size_t kCostOfOne = 4;
// With more lanes, looking into each of them costs more than looking at all placed nodes.
constexpr std::size_t kMostLanesToSearch = 64;

}  // namespace

ConflictFit::ConflictFit(const ConflictGraph& graph)
    : graph_(graph),
      offsets_(graph.size()),
      placed_(graph.size()),
      tree_of_(graph.lane_count(), 0),
      early_(graph.lane_count(), kNotEarly) {
  std::vector<Lane> lanes(graph.lane_count());
  std::iota(lanes.begin(), lanes.end(), Lane{0});
  std::ranges::stable_sort(lanes, std::ranges::greater{},
                           [&](Lane lane) { return graph.nodes_of(lane).size(); });
  if (lanes.size() > kMostTrees) lanes.resize(kMostTrees);
  trees_.assign(lanes.size() + 1, LastingTree{graph.size()});
  for (std::size_t i = 0; i < lanes.size(); ++i) tree_of_[lanes[i]] = i + 1;
  lane_of_tree_ = std::move(lanes);
}

std::size_t ConflictFit::put(Node node, Steps& steps) {
  const bool few = find_few(node);
  steps.take(kCostOfFinding * visited_ + trees_.size());
  const std::size_t begin =
      few ? gap_between_few(graph_.bytes(node)) : gap_between_all(node, steps);
  insert(node, begin);
  return begin;
}

/** @return whether the nodes in conflict are few; then they are in few_ */
bool ConflictFit::find_few(Node node) {
  few_.clear();
  visited_ = 0;
  most_few_ = placed_count_ / kCostOfFinding;
  if (graph_.lane_count() > kMostLanesToSearch) return false;
  const std::size_t tree = tree_of_[graph_.lane(node)];
  bool all = trees_[tree].visit_lasting(node, [&](Node earlier) {
    return look_at(earlier, tree != 0 || graph_.conflict(earlier, node));
  });
  for (Lane other = 0; all && other < graph_.lane_count(); ++other) {
    const auto nodes = graph_.nodes_of(other);
    const Node until = graph_.released_from(node, other);
    for (auto later = std::ranges::upper_bound(nodes, node);
         all && later != nodes.end() && *later < until; ++later) {
      all = look_at(*later, placed_[*later]);
    }
  }
  return all;
}

/** @return whether more may be looked at */
bool ConflictFit::look_at(Node other, bool conflicts) {
  if (conflicts) few_.push_back({offsets_[other], offsets_[other] + graph_.bytes(other), other});
  return ++visited_ <= most_few_;
}

std::size_t ConflictFit::gap_between_few(std::size_t bytes) {
  std::ranges::sort(few_, {}, &Extent::begin);
  std::size_t begin = 0;
  for (const Extent& extent : few_) {
    if (extent.begin >= begin + bytes) break;
    begin = std::max(begin, extent.end);
  }
  return begin;
}

std::size_t ConflictFit::gap_between_all(Node node, Steps& steps) {
  release_ = graph_.released_from(node);
  for (const auto& [lane, from] : graph_.released_early(node)) early_[lane] = from;
  const std::size_t begin = lowest_gap(node, steps);
  for (const auto& [lane, from] : graph_.released_early(node)) early_[lane] = kNotEarly;
  return begin;
}

std::size_t ConflictFit::lowest_gap(Node node, Steps& steps) const {
  const std::size_t bytes = graph_.bytes(node);
  std::size_t begin = 0;
  for (const Run& run : runs_) {
    steps.take(kCostOfOne * run.size());
    for (const Extent& extent : run) {
      // What ends below does not matter; whether it conflicts costs more to know.
      if (extent.end <= begin || !conflict(extent.node, node)) continue;
      if (extent.begin >= begin + bytes) return begin;
      begin = extent.end;
    }
  }
  return begin;
}

bool ConflictFit::conflict(Node placed, Node node) const {
  if (placed > node) {
    const Node early = early_[graph_.lane(placed)];
    return placed < (early == kNotEarly ? release_ : early);
  }
  const std::size_t tree = tree_of_[graph_.lane(node)];
  return trees_[tree].until(placed) > node && (tree != 0 || graph_.conflict(placed, node));
}

void ConflictFit::insert(Node node, std::size_t begin) {
  offsets_[node] = begin;
  placed_[node] = true;
  ++placed_count_;
  trees_[0].place(node, graph_.released_from(node));
  for (std::size_t i = 0; i < lane_of_tree_.size(); ++i) {
    trees_[i + 1].place(node, graph_.released_from(node, lane_of_tree_[i]));
  }
  if (runs_.empty()) runs_.emplace_back();
  auto run = std::ranges::upper_bound(
      runs_, begin, {}, [](const Run& each) { return each.empty() ? 0 : each.front().begin; });
  if (run != runs_.begin()) --run;
  const Extent extent{begin, begin + graph_.bytes(node), node};
  run->insert(std::ranges::upper_bound(*run, begin, {}, &Extent::begin), extent);
  if (run->size() <= kLongestRun) return;
  const auto half = run->begin() + kLongestRun / 2;
  Run second{half, run->end()};
  run->erase(half, run->end());
  runs_.insert(run + 1, std::move(second));
}

}  // namespace millrace::packing
