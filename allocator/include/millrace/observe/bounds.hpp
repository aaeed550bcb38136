#pragma once

#include <cstddef>
#include <vector>

#include "millrace/observe/conflict_graph.hpp"

namespace millrace {

/**
 * @brief The heaviest set of blocks of which any two conflict: no allocator could have served the
 *        same calls, with the same ordering, from fewer bytes.
 *
 * It is the heaviest: conflicts leave open only who may follow whom in the same memory, and there
 * Dilworth's theorem holds (the heaviest set is as heavy as the fewest bytes that can be handed on
 * from block to block to serve all; Dilworth, 10.2307/1969503), so a maximum flow of bytes finds
 * it. An allocator that knew the future, and could scatter a block over many pages, would need
 * exactly this. Where "may follow" is not transitive (a free that named a stream which was not
 * ordered after the block's uses) the set is still one of mutual conflicts.
 *
 * With one or two streams this takes n log n steps. With more of them blocks may have to be swapped
 * between their successors; after 5 * 10^8 steps the search ends, and the set is the heaviest one
 * among the first blocks.
 *
 * @return nodes, ascending
 */
[[nodiscard]] std::vector<ConflictGraph::Node> heaviest_conflicting_set(const ConflictGraph& graph);

/** @brief Where each block would lie, and how many bytes that takes. */
struct ConflictPacking {
  std::vector<std::size_t> offsets;  ///< by node
  std::size_t bytes = 0;
};

/**
 * @brief The lowest of several offline packings in one contiguous range.
 *
 * - Every stream has a range of its own, packed by `quick_pack`. With one stream this is all.
 * - All streams share one range, and each block lasts until every stream could have it.
 * - The largest block comes first, each at the lowest offset that no block in conflict with it has.
 *   It is left out if it needs more than its part of the steps: beyond about 20,000 blocks, with
 *   thousands of them in conflict at a time.
 *
 * O(n log n) and 5 * 10^8 elementary steps of one to two nanoseconds, whatever the streams.
 */
[[nodiscard]] ConflictPacking pack_conflicts(const ConflictGraph& graph);

}  // namespace millrace
