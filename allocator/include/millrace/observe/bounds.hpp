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
 * @return nodes, ascending
 */
[[nodiscard]] std::vector<ConflictGraph::Node> heaviest_conflicting_set(const ConflictGraph& graph);

/** @brief Where each block would lie, and how many bytes that takes. */
struct ConflictPacking {
  std::vector<std::size_t> offsets;  ///< by node
  std::size_t bytes = 0;
};

/** @brief Offline packing in one contiguous range: the largest block first, each at the lowest
 * offset that no block in conflict with it has. */
[[nodiscard]] ConflictPacking pack_by_size(const ConflictGraph& graph);

}  // namespace millrace
