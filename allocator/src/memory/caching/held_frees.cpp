// PyTorch merges a freed block at once, and splits it again for the next request of its size. Here
// the block that a stream freed last is held unmerged instead, until a call needs the stream's free
// blocks. A request that would get exactly this part of the merged block takes the held block.
// Streams share no free memory with Sharing::own_stream, so each stream may have a held block.

#include "memory/caching/held_frees.hpp"

namespace millrace {

bool HeldFrees::hold_in_lane(Block* block, StreamRef stream) {
  try {
    shelve(block->lane);
  } catch (...) {
    block->state = BlockState::live;
    throw;
  }
  if (!block->live.uses.by_owner_only() || stock_.policy.expandable_segments) return false;
  const StreamId id = stream.id();
  if (id != block->lane || block->live.owner.id() != id) return false;
  if (block->spare != 0 || FreeBlocks::mergeable(block->previous, id)) return false;
  const Marker next = stock_.open_streams.next(id);
  if (next == 0) return false;
  held_.make_room(id);  // usually `take_of_lane` has made room
  const Point point{id, next};
  block->points.set(point);
  const WhileLive was = upkeep_.count_in(*block, false);
  block->state = BlockState::quick;
  held_.put(id, block);
  reports_.freed(was, *block, {&point, 1});  // last: an observer may throw
  return true;
}

void HeldFrees::put_completed(Block* block) {
  const StreamId lane = block->lane;
  // The uses by other streams are complete, so only the point of its own stream remains. A set of
  // one point needs no memory, also not in the blocks that are split off.
  if (const Marker own = block->points.on(lane); own != 0) {
    block->points.set({lane, own});
  } else {
    block->points.clear();
  }
  const bool may_hold = !stock_.lanes_mix && !stock_.policy.expandable_segments &&
                        stock_.policy.collect_threshold <= 0 && block->spare == 0 &&
                        held_.has_room(lane) && stock_.open_streams.is_open(lane);
  if (!may_hold) return free_blocks_.put(block);
  shelve(lane);
  if (FreeBlocks::mergeable(block->previous, lane)) return free_blocks_.put(block);
  stock_.heap.live().insert(block);
  block->state = BlockState::quick;
  held_.put(lane, block);
}

Block* HeldFrees::take_of_lane(const Request& request) {
  held_.make_room(request.lane);
  Block* const block = held_.find(request.lane);
  if (block == nullptr) return nullptr;
  const bool fits = block->bytes == request.bytes && block->lane == request.lane &&
                    block->segment->small == request.small &&
                    request.user.id() == request.owner.id() &&
                    request.bytes < stock_.policy.max_split;
  if (!fits || !is_best_fit(*block)) {
    shelve(request.lane);
    return nullptr;
  }
  static_cast<void>(held_.take(request.lane));
  block->state = BlockState::live;
  block->tag = request.tag;
  block->live = {request.requested, request.owner, LiveUses{request.next}, stock_.new_id()};
  ++stock_.meter.counts().served_own;
  stock_.meter.allocated(request.requested, block->bytes, request.lane, block->tag);
  return block;
}

// Returns whether PyTorch, which merges the block with its free neighbors, would serve a request of
// this size at the same address. The merged block has to begin with the held block, has to be split
// if it is larger, and has to be the best fit of the lane.
bool HeldFrees::is_best_fit(const Block& block) const {
  if (FreeBlocks::mergeable(block.previous, block.lane)) return false;
  const Block* const right = FreeBlocks::mergeable(block.next, block.lane) ? block.next : nullptr;
  const std::size_t merged = block.bytes + (right != nullptr ? right->bytes : 0);
  if (right != nullptr) {
    const bool oversize = merged >= stock_.policy.max_split;
    if (oversize || !free_blocks_.worth_splitting(block, merged, block.bytes)) return false;
  }
  const Lane* const lane = stock_.shelves.find(block.lane);
  if (lane == nullptr) return true;
  const auto& index = lane->shelves[block.segment->small ? 1 : 0].ready;
  if (index.size() == (right != nullptr ? 1 : 0)) return true;  // no other block is ready
  const Block* best = index.first(block.bytes);
  if (best != nullptr && best == right) best = index.after(best);
  if (best == nullptr || best->bytes != merged) return best == nullptr || best->bytes > merged;
  return place_of(&block) < place_of(best);
}

// Puts a block that is no longer held on its shelf, merged with its free neighbors.
void HeldFrees::put_back(Block* block) {
  stock_.heap.live().erase(block);
  block->state = BlockState::claimed;
  free_blocks_.put(block, nullptr);
}

void HeldFrees::shelve() {
  while (Block* const block = held_.take_any()) put_back(block);
}

}  // namespace millrace
