#include "memory/caching/batch_freeing.hpp"

#include <utility>

namespace millrace {

void BatchFreeing::free_on(std::span<Block*> blocks, const StreamRef* stream, Lock& lock) {
  std::size_t freed = 0;
  try {
    std::vector<PointSet> points = points_of_frees(blocks, stream, lock);
    if (stock_.has_fronts) {
      {
        // A front's turn must be taken without the allocator's lock.
        const Unlocked unlocked{lock};
        quick_.keep(blocks, stream);
      }
    }
    while (freed < blocks.size()) {
      const std::size_t i = freed++;  // if an observer throws, this block is free all the same
      if (blocks[i] != nullptr) free_claimed(blocks[i], stream, points[i]);
    }
  } catch (...) {
    for (Block* const block : blocks.subspan(freed)) {
      if (block != nullptr) block->state = BlockState::live;
    }
    throw;
  }
}

// Returns the points of each block; no points for a block that a front may keep. All points are
// computed before the streams are marked, so one marker of a stream covers all blocks used on it.
std::vector<PointSet> BatchFreeing::points_of_frees(std::span<Block* const> blocks,
                                                    const StreamRef* stream, Lock& lock) {
  std::vector<PointSet> points(blocks.size());
  StreamUses used;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const WhileLive& live = blocks[i]->live;
    const StreamRef on = stream == nullptr ? live.owner : *stream;
    const bool is_plain = live.uses.by_owner_only() && on.id() == live.owner.id();
    if (stock_.has_fronts && is_plain) continue;
    points[i] = freeing_.points_of_free(*blocks[i], on, stream != nullptr, used);
  }
  if (!used.empty()) freeing_.mark(used, lock);
  return points;
}

// `points`: from `points_of_frees`; empty if only the owner has used the block.
void BatchFreeing::free_claimed(Block* block, const StreamRef* stream, PointSet& points) {
  if (points.empty()) {
    const StreamRef on = stream == nullptr ? block->live.owner : *stream;
    if (stock_.has_fronts && quick_.keep_alone(block, on)) return;
    if (freeing_.free_plainly(block, on)) return;
    StreamUses unused;
    points = freeing_.points_of_free(*block, on, stream != nullptr, unused);
  }
  freeing_.take_back(block, std::move(points));
}

}  // namespace millrace
