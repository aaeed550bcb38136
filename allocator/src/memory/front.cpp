#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "memory/caching_state.hpp"

namespace millrace {
namespace {

constexpr std::uint64_t kIdsAtOnce = 1024;

}  // namespace

CachingAllocator::State::Paused::Paused(State& state) : state_(state) {
  state.shut.store(true, std::memory_order_relaxed);
  state.fronts.for_each([&](Front& front) {
    const std::lock_guard hold{front.lock};  // who did not see `shut` is through then
    state.turns.add(front);
  });
  state.turns.add_current();  // the tally may have passed to a front that was looked at before
}

// Threads that meet here go past it from now on, where they can.
CachingAllocator::State::Lock CachingAllocator::State::enter() {
  Lock lock{mutex, std::try_to_lock};
  const bool met = !lock.owns_lock();
  if (met) lock.lock();
  turns.add_current();
  if (met) turns.crowd();
  return lock;
}

// The block's earlier uses were all of this stream.
inline void CachingAllocator::State::give_again(Front& front, Block* block, const Request& request,
                                                std::uint64_t id) {
  block->live = {id, request.requested, request.owner, request.next, nullptr};
  block->spare = static_cast<std::uint32_t>(block->bytes - request.bytes);  // less than kMuch
  block->tag = request.tag;
  block->state = BlockState::live;
  front.demand.count(block->bytes, request.next, [&] { return device.newest_marker(); });
}

// Whether the live block, freed on `stream`, can be kept as it is: nobody else has used it.
inline bool CachingAllocator::State::keepable(const Front& front, const Block& block,
                                              StreamId stream) const {
  return front.stream() == stream && block.lane == stream && block.live.company == nullptr &&
         block.spare != Block::kMuch && front.quick.accepts(block.rounded()) &&
         front.quick.affords(block.rounded(), front.demand.live.peak) && in_its_pool(block);
}

inline void CachingAllocator::State::keep(Front& front, Block* block, Point point) {
  block->points.set(point);
  block->state = BlockState::quick;
  front.demand.uncount(block->bytes);
  front.quick.push(block, block->rounded());
  QuickBins::is_small(block->rounded()) ? with_small.add(front) : with_large.add(front);
}

// What the first waiting block of the front waits for, if its stream has passed that and a small
// request finds nothing else. Without the front's lock: the ledger may have to take one of its own.
inline Point CachingAllocator::State::passed_wait(const Front& front,
                                                  const Request& request) const {
  const WaitingBlocks& waiting = front.quick.waiting();
  if (waiting.empty() || !QuickBins::is_small(request.bytes)) return {};
  if (front.quick.may_have(request.bytes)) return {};
  const Point next = waiting.next_point();
  return device.ledger().ordered(next, request.lane) ? next : Point{};
}

// In the front's turn.
inline Block* CachingAllocator::State::pop_quick(Turns::Turn& turn, Front& front,
                                                 const Request& request) {
  Block* const block = front.quick.pop(request.bytes, front.demand.live.peak);
  if (block == nullptr) return nullptr;
  if (front.next_id == front.end_id) {
    front.next_id = next_id.fetch_add(kIdsAtOnce, std::memory_order_relaxed);
    front.end_id = front.next_id + kIdsAtOnce;
  }
  give_again(front, block, request, front.next_id++);
  turn.allocate(request.requested, *block);
  return block;
}

// A block of exactly this size that the stream freed itself since anybody last looked further.
CachingAllocator::State::QuickAnswer CachingAllocator::State::take_quick(const Request& request) {
  Front* const front = request.front;
  if (front == nullptr) return {.ask = true};
  if (device.capturing() && device.captured(request.lane)) return {.ask = true};
  const Point passed = passed_wait(*front, request);
  if (!passed.stream.valid() && !front->quick.may_have(request.bytes)) return {};
  Turns::Turn turn{turns, *front};
  const bool serves = front->stream() == request.lane && !shut.load(std::memory_order_relaxed);
  if (!serves || !turn.has_room(request.bytes, request.tag)) return {.ask = true};
  if (passed.stream.valid()) front->quick.settle(passed, front->demand.live.peak);
  return {.block = pop_quick(turn, *front, request)};
}

// Of one stream's requests, in this order, as many as its front serves; all in one turn.
void CachingAllocator::State::take_quick(std::span<const Request> requests,
                                         std::vector<Block*>& blocks) {
  const Request& first = requests.front();
  Front* const front = first.front;
  if (front == nullptr || (device.capturing() && device.captured(first.lane))) return;
  const Point passed = passed_wait(*front, first);
  if (!passed.stream.valid() && !front->quick.may_have(first.bytes)) return;
  Turns::Turn turn{turns, *front};
  if (front->stream() != first.lane || shut.load(std::memory_order_relaxed)) return;
  if (passed.stream.valid()) front->quick.settle(passed, front->demand.live.peak);
  for (const Request& request : requests) {
    if (!turn.has_room(request.bytes, request.tag)) return;
    Block* const block = pop_quick(turn, *front, request);
    if (block == nullptr) return;
    blocks.push_back(block);
  }
}

// As `take_quick`, under the lock.
Block* CachingAllocator::State::take_quick_alone(const Request& request) {
  Front* const front = front_of(request.lane);
  if (front == nullptr) return nullptr;
  const Point passed = passed_wait(*front, request);
  Block* block = nullptr;
  {
    const std::lock_guard hold{front->lock};
    turns.add(*front);
    if (passed.stream.valid()) front->quick.settle(passed, front->demand.live.peak);
    block = front->quick.pop(request.bytes, front->demand.live.peak);
    if (block == nullptr) return nullptr;
    give_again(*front, block, request, next_id.fetch_add(1, std::memory_order_relaxed));
  }
  ++meter.counts().served_own;
  meter.allocated(request.requested, block->bytes, request.lane, block->tag);
  tell_allocated(*block, request.lane);
  return block;
}

// Without the lock. `stream`: where it is freed; nullptr: where it is owned.
CachingAllocator::State::Kept CachingAllocator::State::keep_quick(void* address,
                                                                  const StreamRef* stream) {
  Block* const block = heap.live().find(address);
  if (block == nullptr || block->state != BlockState::live) return Kept::no;
  const StreamId id = stream == nullptr ? block->live.owner.id() : stream->id();
  Front* const front = fronts.find(id);
  if (front == nullptr || block->live.owner.id() != id) return Kept::no;
  if (!front->quick.accepts(block->rounded())) return Kept::no;
  const Marker next = device.ledger().next_if_open(id);
  if (next == 0) return Kept::no;
  Turns::Turn turn{turns, *front};
  if (block->state != BlockState::live || !keepable(*front, *block, id)) return Kept::no;
  const bool is_shut = shut.load(std::memory_order_relaxed);
  if (is_shut || !turn.has_room(block->bytes, block->tag)) return Kept::ask;
  turn.free(block->live.requested, *block);
  keep(*front, block, {id, next});
  return Kept::yes;
}

// Of claimed blocks that were live, those that their streams' fronts keep; nullptr in their place.
// Blocks of one stream that follow each other take one turn. Without the lock.
void CachingAllocator::State::keep_quick(std::span<Block*> blocks, const StreamRef* stream) {
  std::optional<Turns::Turn> turn;
  Front* front = nullptr;
  Point point;
  for (Block*& block : blocks) {
    const StreamId owner = block->live.owner.id();
    const StreamId id = stream == nullptr ? owner : stream->id();
    if (owner != id) continue;
    if (point.stream != id) {
      turn.reset();
      point = {id, device.ledger().next_if_open(id)};
      front = point.marker == 0 ? nullptr : fronts.find(id);
      if (front != nullptr) turn.emplace(turns, *front);
    }
    if (!turn || shut.load(std::memory_order_relaxed)) continue;
    if (!keepable(*front, *block, id) || !turn->has_room(block->bytes, block->tag)) continue;
    turn->free(block->live.requested, *block);
    keep(*front, block, point);
    block = nullptr;
  }
}

// A freed block of which the meter knows, with its points: it serves its stream again once that has
// passed what another stream did with it. False: it is put where all streams see it.
bool CachingAllocator::State::keep_used(Block* block) {
  if (!has_fronts || policy.give_back != Return::rule || block->spare == Block::kMuch) return false;
  if (!QuickBins::is_small(block->rounded()) || !in_its_pool(*block)) return false;
  Front* const front = fronts.find(block->lane);
  if (front == nullptr || !WaitingBlocks::foreign_point(*block).stream.valid()) return false;
  const std::lock_guard hold{front->lock};
  if (front->stream() != block->lane || !front->quick.wait(block)) return false;
  block->state = BlockState::quick;
  with_small.add(*front);
  return true;
}

// As `keep_quick`, under the lock.
bool CachingAllocator::State::keep_quick_alone(Block* block, StreamRef stream) {
  const StreamId id = stream.id();
  Front* const front = fronts.find(id);
  if (front == nullptr) return false;
  const Point point{id, device.ledger().next_if_open(id)};
  if (point.marker == 0) return false;
  const WhileLive was = block->live;
  {
    const std::lock_guard hold{front->lock};
    if (!keepable(*front, *block, id)) return false;
    turns.add(*front);
    meter.freed(was.requested, block->bytes, id,
                block->tag);  // a kept one may be another's at once
    keep(*front, block, point);
  }
  if (observer != nullptr) {
    observer->freed({was.id, block->address, block->bytes, {&point, 1}});
  }
  return true;
}

// nullptr: the stream is older than the one that its slot's front serves.
Front* CachingAllocator::State::front_of(StreamId stream) {
  if (!has_fronts || !stream.valid()) return nullptr;
  if (device.capturing() && device.captured(stream)) return nullptr;
  Front& front = fronts.at(stream.slot);
  const StreamId served = front.stream();
  if (served == stream) return &front;
  if (served.generation > stream.generation) return nullptr;
  give_up(retire(front, stream));
  return &front;
}

// The front serves `next` from now on. What it kept for its former stream is returned.
Block* CachingAllocator::State::retire(Front& front, StreamId next) {
  const std::lock_guard hold{front.lock};
  turns.add(front);
  Block* const left = front.quick.take_all();
  front.demand = {};
  front.serve(next);
  return left;
}

// Before a large request looks further, what its stream's front keeps is put where it can be
// merged: something that fits better may come of it. Small blocks stay until memory would grow,
// unless they are in the way.
void CachingAllocator::State::look_further(Front& front, const Request& request) {
  const bool is_small = QuickBins::is_small(request.bytes);
  if (!is_small && !front.quick.has_large()) return;
  Block* kept = nullptr;
  {
    const std::lock_guard hold{front.lock};
    kept = is_small ? front.quick.take_hindering(request.bytes, front.demand.live.peak)
                    : front.quick.take_large();
  }
  give_up(kept);
}

// Before the meter is told more of the stream's blocks.
void CachingAllocator::State::add_tally(StreamId stream) {
  Front* const front = fronts.find(stream);
  if (front == nullptr) return;
  const std::lock_guard hold{front->lock};
  turns.add(*front);
}

// A small request that its lane cannot serve: of what its front keeps, the blocks that may merge
// into one for it. The others, which are many and little, stay.
void CachingAllocator::State::empty_quick_near(const Request& request) {
  constexpr std::size_t kParts = 8;
  if (request.front == nullptr || !QuickBins::is_small(request.bytes)) return;
  Block* near = nullptr;
  {
    const std::lock_guard hold{request.front->lock};
    near =
        request.front->quick.take_small_from(std::max(request.bytes / kParts, ClassBins::kGranule));
  }
  give_up(near);
}

// Before anybody looks at more than one stream's blocks.
void CachingAllocator::State::empty_quick() {
  empty_quick_small();
  empty_quick_large();
}

// The same where only one pool is looked at: its blocks never merge with those of the other.
void CachingAllocator::State::empty_quick_for(const Request& request) {
  if (request.small || !bins_are_pools) empty_quick_small();
  if (!request.small || !bins_are_pools) empty_quick_large();
}

void CachingAllocator::State::empty_quick_small() {
  Block* blocks = nullptr;
  with_small.take_all([&](Front& front) { blocks = front.quick.take_small(); },
                      [&] { give_up(blocks); });
}

void CachingAllocator::State::empty_quick_large() {
  Block* blocks = nullptr;
  with_large.take_all([&](Front& front) { blocks = front.quick.take_large(); },
                      [&] { give_up(blocks); });
}

void CachingAllocator::State::give_up(Block* first) {
  for (Block* block = first; block != nullptr;) {
    Block* const next = block->next_quick;
    heap.live().erase(block);
    block->state = BlockState::claimed;
    put_free(block);
    block = next;
  }
}

// The meter is told of the block next. Others of its size are kept when they come back.
void CachingAllocator::State::count_out(Block& block, const Request& request) {
  const StreamId owner = request.owner.id();
  if (request.lane != owner) add_tally(owner);
  const bool is_served = request.front != nullptr && request.front->stream() == request.lane;
  Front* const front = is_served ? request.front : front_of(request.lane);
  if (front == nullptr) return;
  const bool is_owners = request.lane == owner;
  const std::lock_guard hold{front->lock};
  if (is_owners) {
    if (front->has_uncounted()) turns.add(*front);
    front->quick.expect(request.bytes);
  }
  front->demand.count(block.bytes, is_owners ? request.next : request.next_of_user,
                      [&] { return device.newest_marker(); });
}

// Of a live block that is freed, what it was. The meter knows.
WhileLive CachingAllocator::State::count_in(Block& block) {
  const WhileLive was = block.live;
  const StreamId owner = was.owner.id();
  if (block.lane != owner) add_tally(owner);
  if (Front* const front = has_fronts ? fronts.find(block.lane) : nullptr) {
    const std::lock_guard hold{front->lock};
    if (block.lane == owner && front->has_uncounted()) turns.add(*front);
    front->demand.uncount(block.bytes);
  }
  meter.freed(was.requested, block.bytes, owner, block.tag);
  if (was.company != nullptr) heap.forget(was.company);
  return was;
}

Demand CachingAllocator::State::demand_of(StreamId stream) const {
  Front* const front = fronts.find(stream);
  if (front == nullptr) return {};
  const std::lock_guard hold{front->lock};
  return front->demand;
}

}  // namespace millrace
