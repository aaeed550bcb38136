#pragma once

#include <cstddef>
#include <vector>

#include "millrace/observe/conflict_graph.hpp"

namespace millrace {

/**
 * @brief Finds the heaviest set of blocks that conflict pairwise: with the same calls and the same
 *        ordering, no allocator could need fewer bytes.
 *
 * The set is optimal. Conflicts define which block may follow which in the same memory. For this
 * relation Dilworth's theorem holds (10.2307/1969503): the weight of the heaviest set equals the
 * least number of bytes that serves all blocks when memory passes from block to block. A maximum
 * flow of bytes therefore finds it. An allocator that knew the future and could place a block on
 * arbitrary pages would need exactly this much. If "may follow" is not transitive (a free named a
 * stream that was not ordered after the block's uses), the result is still a set of pairwise
 * conflicts.
 *
 * The search takes O(n log n) steps for one or two streams. With more streams, blocks may have to
 * be swapped between their successors. After 5 * 10^8 steps the search ends, and the result is the
 * heaviest set among the first blocks.
 *
 * @return nodes in ascending order
 */
[[nodiscard]] std::vector<ConflictGraph::Node> heaviest_conflicting_set(const ConflictGraph& graph);

/** @brief A placement of all blocks, and the bytes that it needs. */
struct ConflictPacking {
  std::vector<std::size_t> offsets;  ///< offset of each block, by node
  std::size_t bytes = 0;
};

/**
 * @brief The smallest of several offline packings in one contiguous range.
 *
 * - Every stream has its own range, packed by `quick_pack`. With one stream, only this is tried.
 * - All streams share one range, and each block occupies its place until every stream could have
 * it.
 * - Blocks are placed by decreasing size, each at the lowest offset that no conflicting block uses.
 *   This packing is skipped if it needs too many steps: with more than about 20,000 blocks of which
 *   thousands conflict at a time.
 *
 * Takes O(n log n) plus at most 5 * 10^8 elementary steps of one to two nanoseconds, for any number
 * of streams.
 */
[[nodiscard]] ConflictPacking pack_conflicts(const ConflictGraph& graph);

}  // namespace millrace
