// Requests and frees that a stream's front serves without the allocator's lock.

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "memory/caching_state.hpp"
#include "memory/contract.hpp"

namespace millrace {
namespace {

constexpr std::uint64_t kIdsAtOnce = 1024;
constexpr std::size_t kMostQuick = std::size_t{1} << 60;  // bytes of a request that can be rounded

}  // namespace

CachingAllocator::State::Paused::Paused(State& state) : state_(state) {
  state.shut.store(true, std::memory_order_relaxed);
  state.fronts.for_each([&](Front& front) {
    const std::lock_guard hold{front.lock};  // who did not see `shut` is through then
    state.turns.add(front);
  });
  state.turns.add_current();  // the tally may have passed to a front that was looked at before
}

// Before anything is looked at.
CachingAllocator::State::Lock CachingAllocator::State::enter() {
  Lock lock = enter_to_serve();
  let_go();
  return lock;
}

// Before a request is served, which looks at the held block first. Threads that meet here go past
// the lock from now on, where they can.
CachingAllocator::State::Lock CachingAllocator::State::enter_to_serve() {
  Lock lock{mutex, std::try_to_lock};
  const bool met = !lock.owns_lock();
  if (met) lock.lock();
  turns.add_current();
  if (met) turns.crowd();
  return lock;
}

// The block's earlier uses were all of this stream.
[[gnu::always_inline]] inline void CachingAllocator::State::give_again(Front& front, Block* block,
                                                                       const PlainRequest& request,
                                                                       std::uint64_t id) {
  block->live = {id, request.requested, request.owner, request.next, nullptr};
  block->spare = static_cast<std::uint32_t>(block->bytes - request.bytes);  // less than kMuch
  block->tag = request.tag;
  block->state = BlockState::live;
  front.demand.count(block->bytes, request.next, [&] { return device.newest_marker(); });
}

// Whether the live block, freed on `stream`, can be kept as it is: nobody else has used it.
[[gnu::always_inline]] inline bool CachingAllocator::State::keepable(const Front& front,
                                                                     const Block& block,
                                                                     StreamId stream,
                                                                     QuickBins::Size size) const {
  return front.stream() == stream && block.lane == stream && block.live.company == nullptr &&
         block.spare != Block::kMuch && front.quick.accepts(size) &&
         front.quick.affords(size.bytes, front.demand.live.peak) && in_its_pool(block, size);
}

[[gnu::always_inline]] inline void CachingAllocator::State::keep(Front& front, Block* block,
                                                                 QuickBins::Size size,
                                                                 Point point) {
  block->points.set(point);
  block->state = BlockState::quick;
  front.demand.uncount(block->bytes);
  front.quick.push(block, size);
  size.small() ? with_small.add(front) : with_large.add(front);
}

// What the first waiting block of the front waits for, if its stream has passed that and a small
// request finds nothing else. Without the front's lock: the ledger may have to take one of its own.
[[gnu::always_inline]] inline Point CachingAllocator::State::passed_wait(
    const Front& front, StreamId stream, QuickBins::Size size) const {
  const WaitingBlocks& waiting = front.quick.waiting();
  if (waiting.empty() || !size.small() || front.quick.has_class(size)) return {};
  const Point next = waiting.next_point();
  return device.ledger().ordered(next, stream) ? next : Point{};
}

// In the front's turn.
[[gnu::always_inline]] inline Block* CachingAllocator::State::pop_quick(Turns::Turn& turn,
                                                                        Front& front,
                                                                        const PlainRequest& request,
                                                                        QuickBins::Size size) {
  Block* const block = front.quick.pop(size, front.demand.live.peak);
  if (block == nullptr) return nullptr;
  if (front.next_id == front.end_id) {
    front.next_id = next_id.fetch_add(kIdsAtOnce, std::memory_order_relaxed);
    front.end_id = front.next_id + kIdsAtOnce;
  }
  give_again(front, block, request, front.next_id++);
  turn.allocate(request.requested, *block);
  return block;
}

void* CachingAllocator::allocate(std::size_t bytes, StreamRef owner, StreamRef first_user,
                                 Tag tag) {
  if (bytes == 0) return nullptr;
  State& state = *state_;
  const bool same = owner.handle() == first_user.handle() && owner.id() == first_user.id();
  owner = state.resolve(owner);
  first_user = same ? owner : state.resolve(first_user);
  State::PlainRequest request{bytes, bytes, owner, tag, 0};
  request.next = state.open_streams.next(owner.id());
  if (request.next == 0) [[unlikely]]
    refuse_stream("allocate", state.device, owner);
  bool ask_front = false;
  if (first_user.id() == owner.id() && state.has_fronts && bytes <= kMostQuick) {
    request.bytes = state.round(bytes);
    const State::QuickAnswer quick = state.take_quick(request, request.bytes);
    if (quick.block != nullptr) return quick.block->address;
    ask_front = quick.ask;
  }
  return state.serve_elsewhere(request, first_user, ask_front);
}

// A block that fits, of those that the stream freed since anybody last looked further.
[[gnu::always_inline]] inline CachingAllocator::State::QuickAnswer
CachingAllocator::State::take_quick(const PlainRequest& request, QuickBins::Size size) {
  const StreamId lane = request.owner.id();
  Front* const front = fronts.find(lane);
  if (front == nullptr) return {.ask = true};
  if (device.capturing() && device.captured(lane)) return {.ask = true};
  const Point passed = passed_wait(*front, lane, size);
  if (!passed.stream.valid() && !front->quick.may_have(size)) return {};
  Turns::Turn turn{turns, *front};
  const bool serves = front->stream() == lane && !shut.load(std::memory_order_relaxed);
  if (!serves || !turn.has_room(request.bytes, request.tag)) return {.ask = true};
  if (passed.stream.valid()) front->quick.settle(passed, front->demand.live.peak);
  return {.block = pop_quick(turn, *front, request, size)};
}

// Of one stream's requests, in this order, as many as its front serves; all in one turn.
void CachingAllocator::State::take_quick(std::span<const Request> requests,
                                         std::vector<Block*>& blocks) {
  const Request& first = requests.front();
  Front* const front = first.front;
  if (front == nullptr || (device.capturing() && device.captured(first.lane))) return;
  const Point passed = passed_wait(*front, first.lane, first.bytes);
  if (!passed.stream.valid() && !front->quick.may_have(first.bytes)) return;
  Turns::Turn turn{turns, *front};
  if (front->stream() != first.lane || shut.load(std::memory_order_relaxed)) return;
  if (passed.stream.valid()) front->quick.settle(passed, front->demand.live.peak);
  for (const Request& request : requests) {
    if (!turn.has_room(request.bytes, request.tag)) return;
    Block* const block = pop_quick(turn, *front, request, request.bytes);
    if (block == nullptr) return;
    blocks.push_back(block);
  }
}

// As `take_quick`, under the lock.
Block* CachingAllocator::State::take_quick_alone(const Request& request) {
  Front* const front = front_of(request.lane);
  if (front == nullptr) return nullptr;
  const Point passed = passed_wait(*front, request.lane, request.bytes);
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
[[gnu::always_inline]] inline CachingAllocator::State::Kept CachingAllocator::State::keep_quick(
    void* address, const StreamRef* stream) {
  Block* const block = heap.live().find(address);
  if (block == nullptr || block->state != BlockState::live) return Kept::no;
  const StreamId id = stream == nullptr ? block->live.owner.id() : stream->id();
  Front* const front = fronts.find(id);
  if (front == nullptr || block->live.owner.id() != id) return Kept::no;
  const QuickBins::Size size = block->rounded();
  if (block->live.company != nullptr) return keep_used(*front, block);
  if (!front->quick.accepts(size)) return Kept::no;
  const Marker next = open_streams.next(id);
  if (next == 0) return Kept::no;
  Turns::Turn turn{turns, *front};
  if (block->state != BlockState::live || !keepable(*front, *block, id, size)) return Kept::no;
  const bool is_shut = shut.load(std::memory_order_relaxed);
  if (is_shut || !turn.has_room(block->bytes, block->tag)) return Kept::ask;
  turn.free(block->live.requested, *block);
  keep(*front, block, size, {id, next});
  return Kept::yes;
}

void CachingAllocator::deallocate(void* address) {
  if (address == nullptr) return;
  State& state = *state_;
  const State::Kept kept = state.has_fronts ? state.keep_quick(address, nullptr) : State::Kept::no;
  if (kept != State::Kept::yes) state.deallocate(address, nullptr, kept);
}

void CachingAllocator::deallocate(void* address, StreamRef stream) {
  if (address == nullptr) return;
  State& state = *state_;
  stream = state.resolve(stream);
  const State::Kept kept = state.has_fronts ? state.keep_quick(address, &stream) : State::Kept::no;
  if (kept != State::Kept::yes) state.deallocate(address, &stream, kept);
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
      point = {id, open_streams.next(id)};
      front = point.marker == 0 ? nullptr : fronts.find(id);
      if (front != nullptr) turn.emplace(turns, *front);
    }
    if (!turn || shut.load(std::memory_order_relaxed)) continue;
    const QuickBins::Size size = block->rounded();
    if (!keepable(*front, *block, id, size)) continue;
    if (!turn->has_room(block->bytes, block->tag)) continue;
    turn->free(block->live.requested, *block);
    keep(*front, block, size, point);
    block = nullptr;
  }
}

// A freed block of which the meter knows, with its points: it serves its stream again once that has
// passed what another stream did with it. False: it is put where all streams see it.
bool CachingAllocator::State::wait_in_front(Block* block) {
  if (!may_wait_in_front(*block)) return false;
  Front* const front = fronts.find(block->lane);
  if (front == nullptr || !WaitingBlocks::foreign_point(*block).stream.valid()) return false;
  const std::lock_guard hold{front->lock};
  if (front->stream() != block->lane || !front->quick.wait(block)) return false;
  block->state = BlockState::quick;
  with_small.add(*front);
  return true;
}

bool CachingAllocator::State::may_wait_in_front(const Block& block) const noexcept {
  if (!has_fronts || policy.give_back != Return::rule || block.spare == Block::kMuch) return false;
  const QuickBins::Size size = block.rounded();
  return size.small() && in_its_pool(block, size);
}

// The lock of the front of the live block's stream, if one serves it. Under the allocator's lock.
std::unique_lock<SpinLock> CachingAllocator::State::hold_front(const Block& block) const {
  Front* const front = has_fronts ? fronts.find(block.lane) : nullptr;
  return front != nullptr ? std::unique_lock{front->lock} : std::unique_lock<SpinLock>{};
}

// As `keep_quick`, under the lock.
bool CachingAllocator::State::keep_quick_alone(Block* block, StreamRef stream) {
  const StreamId id = stream.id();
  Front* const front = fronts.find(id);
  if (front == nullptr) return false;
  const Point point{id, open_streams.next(id)};
  if (point.marker == 0) return false;
  const WhileLive was = block->live;
  {
    const std::lock_guard hold{front->lock};
    const QuickBins::Size size = block->rounded();
    if (!keepable(*front, *block, id, size)) return false;
    turns.add(*front);
    meter.freed(was.requested, block->bytes, id,
                block->tag);  // a kept one may be another's at once
    keep(*front, block, size, point);
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
  const auto take = [&](Front& front) {
    if (front.has_uncounted()) turns.add(front);  // of blocks that wait, the meter knows before
    blocks = front.quick.take_small();
  };
  with_small.take_all(take, [&] { give_up(blocks); });
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
