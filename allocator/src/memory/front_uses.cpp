// Small blocks that one other stream uses as well, as long as only their stream's front has to
// know.

#include <algorithm>
#include <utility>

#include "memory/caching_state.hpp"

namespace millrace {

// False: it is to be recorded under the allocator's lock.
bool CachingAllocator::State::record_use_quick(void* address, StreamRef stream) {
  if (!stock.has_fronts || stock.device.capturing() || graphs.any()) return false;
  Block* const block = stock.heap.live().find(address);
  if (block == nullptr || block->state != BlockState::live) return false;
  const StreamId lane = block->lane;
  Front* const front = stock.fronts.find(lane);
  if (front == nullptr) return false;
  const auto hold = stock.turns.hold(*front);
  if (front->stream() != lane || stock.shut.load(std::memory_order_relaxed)) return false;
  if (block->state != BlockState::live || block->lane != lane) return false;
  const auto same = [&](const StreamRef use) { return use.id() == stream.id(); };
  if (same(block->live.owner)) return true;
  Company*& company = block->live.company;
  if (company == nullptr) {
    Company* const spare = front->take_company();
    if (spare == nullptr) return false;
    spare->begin(block->live.owner.id(), block->first_markers());
    company = spare;
  }
  if (std::ranges::none_of(company->uses, same)) company->uses.push_back(stream);
  return true;
}

// Claims a block of the front's stream that one other stream, `used`, uses as well.
bool CachingAllocator::State::claim_used(Front& front, Block* block, StreamRef& used) {
  const auto hold = stock.turns.hold(front);
  const StreamId id = front.stream();
  if (block->state != BlockState::live || stock.shut.load(std::memory_order_relaxed)) return false;
  if (block->lane != id || block->live.owner.id() != id) return false;
  if (!may_wait_in_front(*block)) return false;
  const Company* const company = block->live.company;
  if (company == nullptr || company->user != id || company->uses.size() != 1) return false;
  used = *company->uses.begin();
  if (!front.quick.waiting().has_room(block->bytes)) return false;
  block->state = BlockState::claimed;
  return true;
}

// The claimed block waits for its stream and for `used`, which is marked. Earlier tenants come
// before the work of its stream.
void CachingAllocator::State::mark_uses(Block* block, StreamRef used) {
  const StreamId id = block->lane;
  const Ledger& ledger = stock.device.ledger();
  const Marker next_of_used = stock.open_streams.next(used.id());
  const bool is_open = next_of_used != 0;
  block->points.set({id, ledger.next(id)});
  block->points.join(Point{used.id(), is_open ? next_of_used : ledger.next(used.id())});
  if (is_open) mark(used);
}

// Whether the claimed block, with its points, waits in the front now.
bool CachingAllocator::State::keep_marked(Front& front, Block* block) {
  Turns::Turn turn{stock.turns, front};
  const WhileLive was = block->live;
  if (front.stream() != block->lane || stock.shut.load(std::memory_order_relaxed)) return false;
  if (!turn.has_room(block->bytes, block->tag) || !front.quick.wait(block)) return false;
  turn.free(was.requested, *block);
  front.demand.uncount(block->bytes);
  block->state = BlockState::quick;
  stock.with_small.add(front);
  front.put_company(was.company);
  return true;
}

// A block that its owner's stream frees, with company. Without the allocator's lock.
CachingAllocator::State::Kept CachingAllocator::State::keep_used(Front& front, Block* block) {
  if (graphs.any() || stock.device.capturing()) return Kept::no;
  StreamRef used{StreamHandle{}};
  if (!claim_used(front, block, used)) return Kept::no;
  Lock lock;
  try {
    mark_uses(block, used);
    if (keep_marked(front, block)) return Kept::yes;
    lock = enter();
  } catch (...) {
    block->state = BlockState::live;
    throw;
  }
  take_back(block, std::move(block->points));
  return Kept::yes;
}

}  // namespace millrace
