// What keeps the fronts in step with the rest of the allocator, under its lock: which may serve,
// what the meter has to count, and when kept blocks are put where all streams see them.

#include <algorithm>
#include <mutex>
#include <utility>

#include "memory/caching_state.hpp"

namespace millrace {
namespace {

// Smallest kept blocks that may merge into one for a request of this many bytes.
std::size_t least_near(std::size_t bytes) {
  constexpr std::size_t kParts = 8;
  return std::clamp(bytes / kParts, ClassBins::kGranule, ClassBins::kLargest);
}

}  // namespace

CachingAllocator::State::Paused::Paused(State& state) : state_(state) {
  state.stock.shut.store(true, std::memory_order_relaxed);
  state.stock.fronts.for_each([&](Front& front) {
    const auto hold = state.stock.turns.hold(front);  // who did not see `shut` is through then
    state.stock.turns.add(front);
  });
}

// Before anything is looked at.
Lock CachingAllocator::State::enter() {
  Lock lock = enter_to_serve();
  let_go();
  return lock;
}

// The same for what looks at one stream's held block first. Threads that meet here go past the lock
// from now on, where they can.
Lock CachingAllocator::State::enter_to_serve() {
  Lock lock{stock.mutex, std::try_to_lock};
  if (!lock.owns_lock()) {
    lock.lock();
    stock.turns.crowd();
  }
  return lock;
}

// The lock of the front of the live block's stream, if one serves it. Under the allocator's lock.
std::unique_lock<SpinLock> CachingAllocator::State::hold_front(const Block& block) {
  Front* const front = stock.has_fronts ? stock.fronts.find(block.lane) : nullptr;
  return front != nullptr ? stock.turns.hold(*front) : std::unique_lock<SpinLock>{};
}

// nullptr: the stream is older than the one that its slot's front serves.
Front* CachingAllocator::State::front_of(StreamId stream) {
  if (!stock.has_fronts || !stream.valid()) return nullptr;
  if (stock.device.capturing() && stock.device.captured(stream)) return nullptr;
  Front& front = stock.fronts.at(stream.slot);
  const StreamId served = front.stream();
  if (served == stream) return &front;
  if (served.generation > stream.generation) return nullptr;
  give_up(retire(front, stream));
  return &front;
}

// The front serves `next` from now on. What it kept for its former stream is returned.
Block* CachingAllocator::State::retire(Front& front, StreamId next) {
  const auto hold = stock.turns.hold(front);
  stock.turns.add(front);
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
    const auto hold = stock.turns.hold(front);
    kept = is_small ? front.quick.take_hindering(request.bytes, front.demand.live.peak)
                    : front.quick.take_large();
  }
  give_up(kept);
}

// Before the meter counts more of the stream's blocks.
void CachingAllocator::State::add_tally(StreamId stream) {
  Front* const front = stock.fronts.find(stream);
  if (front == nullptr) return;
  const auto hold = stock.turns.hold(*front);
  stock.turns.add(*front);
}

// A small request that its lane cannot serve: of what its front keeps, the blocks that may merge
// into one for it. The others, which are many and little, stay.
void CachingAllocator::State::empty_quick_near(const Request& request) {
  if (request.front == nullptr || !QuickBins::is_small(request.bytes)) return;
  Block* near = nullptr;
  {
    const auto hold = stock.turns.hold(*request.front);
    near = request.front->quick.take_small_from(least_near(request.bytes));
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
  if (request.small || !stock.bins_are_pools) empty_quick_small(least_near(request.bytes));
  if (!request.small || !stock.bins_are_pools) empty_quick_large();
}

void CachingAllocator::State::empty_quick_small(std::size_t least) {
  Block* blocks = nullptr;
  const auto take = [&](Front& front) {
    if (front.has_uncounted())
      stock.turns.add(front);  // of blocks that wait, the meter knows before
    blocks = front.quick.take_small(least);
    if (front.quick.has_small()) stock.with_small.add(front);
  };
  stock.with_small.take_all(stock.turns, take, [&] { give_up(blocks); });
}

void CachingAllocator::State::empty_quick_large() {
  Block* blocks = nullptr;
  stock.with_large.take_all(
      stock.turns, [&](Front& front) { blocks = front.quick.take_large(); },
      [&] { give_up(blocks); });
}

void CachingAllocator::State::give_up(Block* first) {
  for (Block* block = first; block != nullptr;) {
    Block* const next = block->next_quick;
    stock.heap.live().erase(block);
    block->state = BlockState::claimed;
    free_blocks.put(block);
    block = next;
  }
}

// Counts a block that is given out. Others of its size are kept when they come back.
void CachingAllocator::State::count_out(Block& block, const Request& request) {
  const StreamId owner = request.owner.id();
  const bool is_owners = request.lane == owner;
  const bool is_served = request.front != nullptr && request.front->stream() == request.lane;
  Front* const front = is_served ? request.front : front_of(request.lane);
  bool is_counted = false;
  if (front != nullptr) {
    const auto hold = stock.turns.hold(*front);
    if (is_owners) {
      front->quick.expect(request.bytes);
      is_counted = !reports.any() && stock.turns.allocate(*front, request.requested, block);
    }
    front->demand.count(block.bytes, is_owners ? request.next : request.next_of_user,
                        [&] { return stock.device.newest_marker(); });
  }
  if (is_counted) return;
  add_tally(owner);
  stock.turns.current().allocated(request.requested, block.bytes, owner, block.tag);
}

// Counts a live block that is freed. @return what it was. If its uses may go on, the meter learns
// of the free when it counts them.
WhileLive CachingAllocator::State::count_in(Block& block, bool uses_may_go_on) {
  const WhileLive was = block.live;
  const StreamId owner = was.owner.id();
  bool is_counted = false;
  if (Front* const front = stock.has_fronts ? stock.fronts.find(block.lane) : nullptr) {
    const auto hold = stock.turns.hold(*front);
    front->demand.uncount(block.bytes);
    const bool may_wait = block.lane == owner && !reports.any() && !uses_may_go_on;
    is_counted = may_wait && stock.turns.free(*front, was.requested, block);
  }
  if (!is_counted) {
    add_tally(owner);
    stock.turns.current().freed(was.requested, block.bytes, owner, block.tag);
  }
  if (was.company != nullptr) stock.heap.forget(was.company);
  return was;
}

Demand CachingAllocator::State::demand_of(StreamId stream) {
  Front* const front = stock.fronts.find(stream);
  if (front == nullptr) return {};
  const auto hold = stock.turns.hold(*front);
  return front->demand;
}

}  // namespace millrace
