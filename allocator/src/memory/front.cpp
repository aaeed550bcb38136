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
    state.add(front);
  });
}

// Threads that meet here go past it from now on, where they can.
CachingAllocator::State::Lock CachingAllocator::State::enter() {
  Lock lock{mutex, std::try_to_lock};
  const bool met = !lock.owns_lock();
  if (met) lock.lock();
  add_current();
  if (met && has_fronts) {
    crowded.store(true, std::memory_order_release);
    current.store(nullptr, std::memory_order_relaxed);
  }
  return lock;
}

// The next one to have a tally.
void CachingAllocator::State::turn_to(Front& front) {
  const Lock lock = enter();
  if (!crowded.load(std::memory_order_relaxed)) current.store(&front, std::memory_order_relaxed);
}

// Under the front's lock.
void CachingAllocator::State::add(Front& front) {
  if (front.stream().valid()) meter.add(front.stream(), front.tally);
}

// While calls do not overlap, all that is not in the meter yet.
void CachingAllocator::State::add_current() {
  Front* const front = current.load(std::memory_order_relaxed);
  if (front == nullptr || front->tally.empty()) return;
  const std::lock_guard hold{front->lock};
  add(*front);
}

// A block of exactly this size that the stream freed itself since anybody last looked further.
CachingAllocator::State::QuickAnswer CachingAllocator::State::take_quick(const Request& request) {
  Front* const front = fronts.find(request.lane);
  if (front == nullptr) return {.ask = true};
  const bool is_crowded = crowded.load(std::memory_order_acquire);
  if (!is_crowded && current.load(std::memory_order_relaxed) != front) turn_to(*front);
  const std::lock_guard hold{front->lock};
  const bool serves = front->stream() == request.lane && !shut.load(std::memory_order_relaxed);
  if (!serves || !front->tally.has_room(request.bytes, request.tag)) return {.ask = true};
  Block* const block = front->quick.pop(request.bytes);
  if (block == nullptr) return {};
  if (front->next_id == front->end_id) {
    front->next_id = next_id.fetch_add(kIdsAtOnce, std::memory_order_relaxed);
    front->end_id = front->next_id + kIdsAtOnce;
  }
  block->id = front->next_id++;
  give_again(*front, block, request);
  front->tally.allocate(block->requested, block->bytes, block->tag);
  if (is_crowded) with_tally.add(*front);
  return {.block = block};
}

// As `take_quick`, under the lock.
Block* CachingAllocator::State::take_quick_alone(const Request& request) {
  Front* const front = front_of(request.lane);
  if (front == nullptr) return nullptr;
  Block* block = nullptr;
  {
    const std::lock_guard hold{front->lock};
    add(*front);
    block = front->quick.pop(request.bytes);
    if (block == nullptr) return nullptr;
    block->id = next_id.fetch_add(1, std::memory_order_relaxed);
    give_again(*front, block, request);
  }
  ++meter.counts().served_own;
  meter.allocated(block->requested, block->bytes, request.lane, block->tag);
  tell_allocated(*block, request.lane);
  return block;
}

// The block's earlier uses were all of this stream.
void CachingAllocator::State::give_again(Front& front, Block* block, const Request& request) {
  block->inherited = std::exchange(block->points, {});
  block->requested = request.requested;
  block->owner = request.owner;
  block->tag = request.tag;
  const Point next{request.lane, device.ledger().next(request.lane)};
  block->first_markers = {next, next};
  block->state = BlockState::live;
  front.demand.count(block->bytes, next.marker, [&] { return device.newest_marker(); });
}

// Whether the live block, freed on `stream`, can be kept as it is: nobody else has used it.
bool CachingAllocator::State::keepable(const Front& front, const Block& block,
                                       StreamId stream) const {
  return front.stream() == stream && block.lane == stream && block.user == stream &&
         block.uses.empty() && front.quick.expects(block.rounded) &&
         device.ledger().is_open(stream);
}

void CachingAllocator::State::keep(Front& front, Block* block, Point point) {
  block->points.clear();
  block->points.push_back(point);
  block->state = BlockState::quick;
  front.demand.uncount(block->bytes);
  front.quick.push(block, block->rounded);
  with_blocks.add(front);
}

// Without the lock. `stream`: where it is freed; nullptr: where it is owned.
CachingAllocator::State::Kept CachingAllocator::State::keep_quick(void* address,
                                                                  const StreamRef* stream) {
  Block* const block = heap.live().find(address);
  if (block == nullptr || block->state != BlockState::live) return Kept::no;
  const StreamId id = stream == nullptr ? block->owner.id() : stream->id();
  Front* const front = fronts.find(id);
  if (front == nullptr || block->owner.id() != id) return Kept::no;
  const bool is_crowded = crowded.load(std::memory_order_acquire);
  if (!is_crowded && current.load(std::memory_order_relaxed) != front) turn_to(*front);
  const std::lock_guard hold{front->lock};
  if (block->state != BlockState::live || !keepable(*front, *block, id)) return Kept::no;
  const bool is_shut = shut.load(std::memory_order_relaxed);
  if (is_shut || !front->tally.has_room(block->bytes, block->tag)) return Kept::ask;
  front->tally.free(block->requested, block->bytes, block->tag);
  if (is_crowded) with_tally.add(*front);
  keep(*front, block, {id, device.ledger().next(id)});
  return Kept::yes;
}

// As `keep_quick`, under the lock.
bool CachingAllocator::State::keep_quick_alone(Block* block, StreamRef stream) {
  const StreamId id = stream.id();
  Front* const front = fronts.find(id);
  if (front == nullptr) return false;
  const Point point{id, device.ledger().next(id)};
  {
    const std::lock_guard hold{front->lock};
    if (!keepable(*front, *block, id)) return false;
    add(*front);
    keep(*front, block, point);
  }
  meter.freed(block->requested, block->bytes, block->owner.id(), block->tag);
  if (observer != nullptr) {
    observer->freed({block->id, block->address, block->bytes, {&point, 1}});
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
  Block* left = nullptr;
  {
    const std::lock_guard hold{front.lock};
    add(front);
    left = front.quick.take_all();
    front.demand = {};
    front.serve(stream);
  }
  give_up(left);
  return &front;
}

// Blocks of this size are kept when they come back. What is kept is put where it can be merged.
void CachingAllocator::State::look_further(const Request& request) {
  Front* const front = front_of(request.lane);
  if (front == nullptr) return;
  Block* kept = nullptr;
  {
    const std::lock_guard hold{front->lock};
    kept = front->quick.take_all();
    front->quick.expect(request.bytes);
  }
  give_up(kept);
}

// Before the meter is told more of the stream's blocks.
void CachingAllocator::State::add_tally(StreamId stream) {
  if (!crowded.load(std::memory_order_relaxed)) return;
  Front* const front = fronts.find(stream);
  if (front == nullptr) return;
  const std::lock_guard hold{front->lock};
  add(*front);
}

// Before somebody reads the meter.
void CachingAllocator::State::add_tallies() {
  with_tally.take_all([&](Front& front) { add(front); }, [] {});
}

// Before anybody looks at more than one stream's blocks.
void CachingAllocator::State::empty_quick() {
  Block* blocks = nullptr;
  with_blocks.take_all([&](Front& front) { blocks = front.quick.take_all(); },
                       [&] { give_up(blocks); });
}

void CachingAllocator::State::give_up(Block* first) {
  for (Block* block = first; block != nullptr;) {
    Block* const next = std::exchange(block->queue_next, nullptr);
    heap.live().erase(block);
    block->state = BlockState::claimed;
    put_free(block);
    block = next;
  }
}

void CachingAllocator::State::count_demand(StreamId lane, const Block& block, Marker next) {
  Front* const front = front_of(lane);
  if (front == nullptr) return;
  const std::lock_guard hold{front->lock};
  front->demand.count(block.bytes, next, [&] { return device.newest_marker(); });
}

void CachingAllocator::State::uncount_demand(const Block& block) {
  Front* const front = has_fronts ? fronts.find(block.lane) : nullptr;
  if (front == nullptr) return;
  const std::lock_guard hold{front->lock};
  front->demand.uncount(block.bytes);
}

Demand CachingAllocator::State::demand_of(StreamId stream) const {
  Front* const front = fronts.find(stream);
  if (front == nullptr) return {};
  const std::lock_guard hold{front->lock};
  return front->demand;
}

}  // namespace millrace
