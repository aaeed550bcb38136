#include "memory/caching_state.hpp"

namespace millrace {

// A block of exactly this size that the stream freed itself since anybody last looked further.
Block* CachingAllocator::State::take_quick(const Request& request) {
  Lane* const lane = shelves.find(request.lane);
  if (lane == nullptr || lane->quick.empty()) return nullptr;
  Block* const block = lane->quick.pop(request.bytes);
  if (block == nullptr) return nullptr;
  ++meter.counts().served_own;
  return block;
}

// Whether the live block, freed on `stream`, is kept as it is: nobody else has used it.
bool CachingAllocator::State::keep_quick(Block* block, StreamRef stream) {
  const StreamId id = stream.id();
  const bool stream_ordered =
      policy.sharing == Sharing::ordered || policy.sharing == Sharing::wait_before_grow;
  if (!stream_ordered || !block->uses.empty() || block->lane != id || block->user != id)
    return false;
  if (!device.ledger().is_open(id)) return false;
  Lane& lane = shelves.lane(id);
  QuickBins::Bin& bin = lane.quick.bin(block->rounded);
  if (bin.bytes != block->rounded) {
    while (Block* const other = lane.quick.pop(bin)) {
      heap.live().erase(other);
      other->state = BlockState::claimed;
      put_free(other);
    }
    bin.bytes = block->rounded;
  }
  if (lane.quick.place == 0) {
    quick_lanes.push_back(&lane);
    lane.quick.place = quick_lanes.size();
  }
  uncount_demand(*block);
  meter.freed(block->requested, block->bytes, block->owner.id(), block->tag);
  const Point point{id, device.ledger().next(id)};
  if (observer != nullptr) {
    observer->freed({block->id, block->address, block->bytes, {&point, 1}});
  }
  block->points.clear();
  block->points.push_back(point);
  block->state = BlockState::quick;
  lane.quick.push(bin, block);
  return true;
}

void CachingAllocator::State::empty_quick(Lane& lane) {
  lane.quick.empty_into([&](Block* block) {
    heap.live().erase(block);
    block->state = BlockState::claimed;
    put_free(block);
  });
}

// Before anybody looks at more than one lane's quick bins.
void CachingAllocator::State::empty_quick() {
  for (Lane* const lane : quick_lanes) {
    lane->quick.place = 0;
    empty_quick(*lane);
  }
  quick_lanes.clear();
}

// What was kept for a stream that is gone, with all its work complete, is nobody's: what it waits
// for is of other streams.
void CachingAllocator::State::merge_former_lanes() {
  while (Lane* const lane = shelves.former()) {
    for (const bool small : {false, true}) {
      for (auto* const index : {&lane->shelf(small).ready, &lane->shelf(small).draining}) {
        while (Block* const block = index->last()) {
          claim(block);
          block->lane = {};
          put_free(block);
        }
      }
    }
    shelves.forget(lane->stream);
  }
}

}  // namespace millrace
