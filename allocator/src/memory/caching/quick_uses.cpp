#include "memory/caching/quick_uses.hpp"

#include "memory/caching/try_mark.hpp"

namespace millrace {

bool QuickUses::record_use(void* address, StreamRef stream) {
  if (stock_.device.capturing() || graphs_.any()) return false;
  Block* const block = stock_.heap.live().find(address);
  if (block == nullptr || block->state != BlockState::live) return false;
  const StreamId lane = block->lane;
  Front* const front = stock_.fronts.find(lane);
  if (front == nullptr) return false;
  const auto hold = stock_.turns.hold(*front);
  if (front->stream() != lane || stock_.is_shut()) return false;
  if (block->state != BlockState::live || block->lane != lane) return false;
  if (stream.id() == block->live.owner.id()) return true;
  UseRecord* use_record = block->live.uses.record();
  if (use_record == nullptr) {
    use_record = front->take_use_record();
    if (use_record == nullptr) return false;
    use_record->begin(block->live.owner.id(), block->first_markers());
    block->live.uses = LiveUses{*use_record};
  }
  use_record->uses.add(stream);
  return true;
}

// Claims a block of the front's stream if exactly one other stream, `used`, has used it.
bool QuickUses::claim(Front& front, Block* block, StreamRef& used) const {
  const auto hold = stock_.turns.hold(front);
  const StreamId id = front.stream();
  if (block->state != BlockState::live || stock_.is_shut()) return false;
  if (block->lane != id || block->live.owner.id() != id) return false;
  if (!may_wait(*block)) return false;
  const UseRecord* const use_record = block->live.uses.record();
  if (use_record == nullptr || use_record->user != id || use_record->uses.size() != 1) return false;
  used = *use_record->uses.begin();
  if (!front.quick.waiting().has_room(block->bytes)) return false;
  block->state = BlockState::claimed;
  return true;
}

// Sets the block's points, on its own stream and on `used`, and marks `used`. The number of the
// marker is read before it is recorded, so it covers the use. Earlier points are dropped, because
// the block's stream is ordered after them.
void QuickUses::mark(Block* block, StreamRef used) {
  const StreamId id = block->lane;
  const Marker next_of_used = stock_.open_streams.next(used.id());
  block->points.set({id, stock_.device.ledger().next(id)});
  block->points.join(stock_.point_of_free(used.id(), next_of_used));
  if (next_of_used != 0) try_mark(stock_.device, used);
}

// Puts the claimed block, which has its points, among the blocks that wait in the front. Returns
// false if the front does not accept it.
bool QuickUses::keep_marked(Front& front, Block* block) {
  Turns::Turn turn{stock_.turns, front};
  const WhileLive was = block->live;
  if (front.stream() != block->lane || stock_.is_shut()) return false;
  if (!turn.has_room(block->bytes, block->tag) || !front.quick.wait(block)) return false;
  turn.free(was.requested, *block);
  front.demand.uncount(block->bytes);
  block->state = BlockState::quick;
  stock_.with_small.add(front);
  front.put_use_record(was.uses.record());
  return true;
}

Kept QuickUses::keep(Front& front, Block* block) {
  if (graphs_.any() || stock_.device.capturing()) return Kept::no;
  StreamRef used{StreamHandle{}};
  if (!claim(front, block, used)) return Kept::no;
  try {
    mark(block, used);
    if (keep_marked(front, block)) return Kept::yes;
  } catch (...) {
    block->state = BlockState::live;
    throw;
  }
  return Kept::marked;
}

bool QuickUses::wait(Block* block) {
  if (!may_wait(*block)) return false;
  Front* const front = stock_.fronts.find(block->lane);
  if (front == nullptr || !WaitingBlocks::foreign_point(*block).stream.valid()) return false;
  const auto hold = stock_.turns.hold(*front);
  if (front->stream() != block->lane || !front->quick.wait(block)) return false;
  block->state = BlockState::quick;
  stock_.with_small.add(*front);
  return true;
}

bool QuickUses::may_wait(const Block& block) const noexcept {
  if (stock_.polls_frees || block.spare == Block::kMuch) return false;
  const QuickBins::Size size = block.rounded();
  return size.small() && stock_.in_its_pool(block, size);
}

}  // namespace millrace
