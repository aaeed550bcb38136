#include "millrace/observe/bounds.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include "millrace/observe/packing.hpp"
#include "observe/byte_flow.hpp"
#include "observe/packing/conflict_fit.hpp"
#include "observe/packing/steps.hpp"

namespace millrace {

namespace {

using Node = ConflictGraph::Node;
using Lane = ConflictGraph::Lane;
using packing::Steps;

std::vector<Node> by_falling_size(const ConflictGraph& graph) {
  std::vector<Node> order(graph.size());
  std::iota(order.begin(), order.end(), Node{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](Node node) {
    return std::tuple{graph.bytes(node), graph.released_from(node) - node};
  });
  return order;
}

// Budget of the three packings together.
constexpr std::uint64_t kSteps = 500'000'000;

std::optional<ConflictPacking> pack_by_size(const ConflictGraph& graph, Steps steps) {
  ConflictPacking packing{.offsets = std::vector<std::size_t>(graph.size()), .bytes = 0};
  packing::ConflictFit fit{graph};
  for (const Node node : by_falling_size(graph)) {
    if (steps.spent()) return std::nullopt;
    packing.offsets[node] = fit.put(node, steps);
    packing.bytes = std::max(packing.bytes, packing.offsets[node] + graph.bytes(node));
  }
  return packing;
}

/** Packs the nodes, each until `released` of it. Uses a part of `steps`. */
template <typename Released>
Packing pack_lives(const ConflictGraph& graph, std::span<const Node> nodes, std::uint64_t steps,
                   Released released) {
  std::vector<Interval> lives;
  lives.reserve(nodes.size());
  for (const Node node : nodes) lives.push_back({node, released(node), graph.bytes(node)});
  const double part = static_cast<double>(nodes.size()) / static_cast<double>(graph.size());
  return quick_pack(lives,
                    {.steps = static_cast<std::uint64_t>(static_cast<double>(steps) * part)});
}

/** Packs each lane into its own range, and places the ranges one after the other. */
ConflictPacking pack_apart(const ConflictGraph& graph, std::uint64_t steps) {
  ConflictPacking packing{.offsets = std::vector<std::size_t>(graph.size()), .bytes = 0};
  for (Lane lane = 0; lane < graph.lane_count(); ++lane) {
    const auto nodes = graph.nodes_of(lane);
    const Packing found =
        pack_lives(graph, nodes, steps, [&](Node node) { return graph.released_from(node, lane); });
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      packing.offsets[nodes[i]] = packing.bytes + found.offsets[i];
    }
    packing.bytes += found.height;
  }
  return packing;
}

/** Packs as if no stream could reuse a block before all streams can. */
ConflictPacking pack_as_one(const ConflictGraph& graph, std::uint64_t steps) {
  std::vector<Node> nodes(graph.size());
  std::iota(nodes.begin(), nodes.end(), Node{0});
  const Packing found =
      pack_lives(graph, nodes, steps, [&](Node node) { return graph.released_from(node); });
  return {.offsets = {found.offsets.begin(), found.offsets.end()}, .bytes = found.height};
}

}  // namespace

std::vector<Node> heaviest_conflicting_set(const ConflictGraph& graph) {
  return ByteFlow{graph}.minimum_cut();
}

ConflictPacking pack_conflicts(const ConflictGraph& graph) {
  if (graph.lane_count() < 2) return pack_apart(graph, kSteps);
  ConflictPacking best = pack_apart(graph, kSteps / 5);
  const auto keep = [&](ConflictPacking found) {
    if (found.bytes < best.bytes) best = std::move(found);
  };
  keep(pack_as_one(graph, kSteps / 5));
  if (auto by_size = pack_by_size(graph, Steps{kSteps / 5 * 3})) keep(std::move(*by_size));
  return best;
}

}  // namespace millrace
