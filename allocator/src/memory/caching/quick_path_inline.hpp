#pragma once

#include "memory/caching/quick_path.hpp"

/// @file
/// The part of the usual request and the usual free that `allocate` and `deallocate` inline.

namespace millrace {

// The stream comes after all earlier uses of the block, so the block's points need no change.
[[gnu::always_inline]] inline void QuickPath::give_again(const Stock& stock, Front& front,
                                                         Block* block, const PlainRequest& request,
                                                         std::uint64_t id) {
  block->live = {request.requested, request.owner, LiveUses{request.next}, id};
  block->spare = static_cast<std::uint32_t>(block->bytes - request.bytes);  // less than kMuch
  block->tag = request.tag;
  block->state = BlockState::live;
  front.demand.count(block->bytes, request.next, [&] { return stock.device.newest_marker(); });
}

// Returns whether the front may keep the live block, freed on `stream`: no other stream has used
// it, and its bin has room.
[[gnu::always_inline]] inline bool QuickPath::keepable(const Stock& stock, const Front& front,
                                                       const Block& block, StreamId stream,
                                                       QuickBins::Size size) {
  return front.stream() == stream && block.lane == stream && block.live.uses.by_owner_only() &&
         block.spare != Block::kMuch && front.quick.accepts(size) &&
         front.quick.affords(size.bytes, front.demand.live.peak) && stock.in_its_pool(block, size);
}

[[gnu::always_inline]] inline void QuickPath::push(Stock& stock, Front& front, Block* block,
                                                   QuickBins::Size size, Point point) {
  block->points.set(point);
  block->state = BlockState::quick;
  front.demand.uncount(block->bytes);
  front.quick.push(block, size);
  size.small() ? stock.with_small.add(front) : stock.with_large.add(front);
}

// Returns the point that the front's first waiting block waits for, if `stream` is ordered after it
// and a small request finds no block of its class; otherwise no point. Called without the front's
// lock, because the ledger may take a lock of its own.
[[gnu::always_inline]] inline Point QuickPath::passed_wait(const Stock& stock, const Front& front,
                                                           StreamId stream, QuickBins::Size size) {
  const WaitingBlocks& waiting = front.quick.waiting();
  if (waiting.empty() || !size.small() || front.quick.has_class(size)) return {};
  const Point next = waiting.next_point();
  return stock.device.ledger().ordered(next, stream) ? next : Point{};
}

// Called in the front's turn.
[[gnu::always_inline]] inline Block* QuickPath::pop(Stock& stock, Turns::Turn& turn, Front& front,
                                                    const PlainRequest& request,
                                                    QuickBins::Size size) {
  Block* const block = front.quick.pop(size, front.demand.live.peak);
  if (block == nullptr) return nullptr;
  if (front.next_id == front.end_id) {
    front.next_id = stock.next_id.fetch_add(kIdsAtOnce, std::memory_order_relaxed);
    front.end_id = front.next_id + kIdsAtOnce;
  }
  give_again(stock, front, block, request, front.next_id++);
  turn.allocate(request.requested, *block);
  return block;
}

[[gnu::always_inline]] inline QuickPath::Answer QuickPath::take(const PlainRequest& request,
                                                                QuickBins::Size size) {
  Stock& stock = stock_;
  const StreamId lane = request.owner.id();
  Front* const front = stock.fronts.find(lane);
  if (front == nullptr) return {.ask = true};
  if (stock.device.capturing() && stock.device.captured(lane)) return {.ask = true};
  const Point passed = passed_wait(stock, *front, lane, size);
  if (!passed.stream.valid() && !front->quick.may_have(size)) return {};
  Turns::Turn turn{stock.turns, *front};
  const bool serves = front->stream() == lane && !stock.is_shut();
  if (!serves || !turn.has_room(request.bytes, request.tag)) return {.ask = true};
  if (passed.stream.valid()) front->quick.settle(passed, front->demand.live.peak);
  return {.block = pop(stock, turn, *front, request, size)};
}

// Another thread may free the same block until the front is locked. Only atomic fields are read
// before that, and they are checked again under the lock.
[[gnu::always_inline]] inline Kept QuickPath::keep(void* address, const StreamRef* stream) {
  Stock& stock = stock_;
  Block* const block = stock.heap.live().find(address);
  if (block == nullptr || block->state != BlockState::live) return Kept::no;
  const StreamId id = block->lane;
  if (stream != nullptr && stream->id() != id) return Kept::no;
  Front* const front = stock.fronts.find(id);
  if (front == nullptr) return Kept::no;
  const Marker next = stock.open_streams.next(id);
  if (next == 0) return Kept::no;
  {
    Turns::Turn turn{stock.turns, *front};
    if (block->state != BlockState::live || block->lane != id) return Kept::no;
    if (block->live.owner.id() != id) return Kept::no;
    if (block->live.uses.by_owner_only()) [[likely]]
      return keep_plain(stock, turn, *front, block, {id, next});
  }
  return uses_.keep(*front, block);
}

// Called in the front's turn, for a live block that its owner, `point.stream`, frees.
[[gnu::always_inline]] inline Kept QuickPath::keep_plain(Stock& stock, Turns::Turn& turn,
                                                         Front& front, Block* block, Point point) {
  const QuickBins::Size size = block->rounded();
  if (!keepable(stock, front, *block, point.stream, size)) return Kept::no;
  const bool is_shut = stock.is_shut();
  if (is_shut || !turn.has_room(block->bytes, block->tag)) return Kept::ask;
  turn.free(block->live.requested, *block);
  push(stock, front, block, size, point);
  return Kept::yes;
}

}  // namespace millrace
