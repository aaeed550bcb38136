#include "observe/reuse_check.hpp"

#include <algorithm>

#include "observe/address_history.hpp"

namespace millrace {

namespace {

using Node = ConflictGraph::Node;

/** Returns whether every block that may reuse the memory of `later` may also reuse `earlier`'s. */
bool outlasts(const ConflictGraph& graph, Node later, Node earlier) {
  if (graph.released_from(later) < graph.released_from(earlier)) return false;
  return std::ranges::all_of(graph.released_early(later), [&](const auto& release) {
    return graph.released_from(earlier, release.lane) <= release.from;
  });
}

}  // namespace

ReuseCheck check_reuse(const ConflictGraph& graph) {
  ReuseCheck check;
  AddressHistory history{graph.moves()};
  for (Node later = 0; later < graph.size() && !check.illegal; ++later) {
    const TracedBlock& block = graph.block(later);
    history.move_until(block.allocated);
    history.take(block.address, block.bytes, later, [&](Node earlier) {
      ++check.steps;
      if (graph.released_from(earlier) <= later) return false;
      check.illegal = check.illegal || graph.conflict(earlier, later);
      return !outlasts(graph, later, earlier);
    });
  }
  return check;
}

}  // namespace millrace
