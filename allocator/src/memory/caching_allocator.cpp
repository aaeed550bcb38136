#include "millrace/memory/caching_allocator.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

#include "memory/caching_state.hpp"
#include "memory/contract.hpp"

namespace millrace {
namespace {

std::uint32_t spare_of(const Block& block, std::size_t rounded) {
  return static_cast<std::uint32_t>(std::min<std::size_t>(block.bytes - rounded, Block::kMuch));
}

}  // namespace

CachingAllocator::CachingAllocator(OrderedDevice& device, SegmentSource& source, Policy policy,
                                   MemoryLimits limits)
    : state_(std::make_unique<State>(device, source, std::move(policy), limits)) {
  try {
    state_->stock.capacity = device.device().memory_info().total;
  } catch (const DeviceError&) {  // then only the policy limits the size of segments
  }
}

CachingAllocator::~CachingAllocator() {
  state_->graphs.close();
  try {
    Lock lock = state_->enter();
    state_->upkeep.empty();
    state_->closing.release_everything(lock);
  } catch (const DeviceError&) {  // the device is lost, and its memory with it
  }
}

Lock CachingAllocator::State::enter() {
  Lock lock = enter_to_serve();
  held.shelve();
  return lock;
}

// If the lock is taken, calls overlap: from now on each front has its own lock (Turns).
Lock CachingAllocator::State::enter_to_serve() {
  Lock lock{stock.mutex, std::try_to_lock};
  if (!lock.owns_lock()) {
    lock.lock();
    stock.turns.give_own_locks();
  }
  return lock;
}

// Serves a request that the owner's front did not serve. `next` is the owner's next marker. If
// `ask_front`, the front could serve nothing at that moment and is asked again under the lock. Each
// argument is one word: the fast path builds no request in memory, and this path does not have to
// load one that was just stored.
void* CachingAllocator::State::serve_elsewhere(std::size_t bytes, StreamRef owner,
                                               StreamRef first_user, Tag tag, Marker next,
                                               bool ask_front) {
  const bool same = first_user.id() == owner.id();
  const Marker next_of_user = same ? next : require_open("allocate", stock.device, first_user);
  Request request{{bytes, bytes, owner, tag, next}, false, first_user, {}, next_of_user};
  round(request);
  request.lane = stock.lanes_mix ? first_user.id() : owner.id();
  if (stock.has_fronts) request.front = stock.fronts.find(request.lane);
  return serve(request, ask_front);
}

// Rounds the request's size. Throws out_of_memory if the size is too large to be rounded.
void CachingAllocator::State::round(Request& request) {
  constexpr std::size_t largest = std::numeric_limits<std::ptrdiff_t>::max();
  if (request.requested > largest - stock.policy.segment_multiple) {
    Lock lock = enter();
    fail(request, lock);
  }
  request.bytes = stock.round(request.requested);
  request.small = request.bytes <= stock.policy.small_limit;
}

void* CachingAllocator::State::serve(const Request& request, bool ask_front) {
  if (stock.device.capturing() || graphs.any()) {
    graphs.tidy();
    void* const address = graphs.allocate(request.requested, request.owner, request.user);
    if (address != nullptr) return address;
  }
  const bool asked = completions.ask_before_lock();
  Lock lock = enter_to_serve();
  if (!stock.meter.known(request.tag)) {
    throw std::invalid_argument{"allocate: this tag is not one of this allocator's"};
  }
  const bool waits = !completions.pending().empty();
  if (!waits) {
    if (Block* const block = held.take(request)) return report(block, request.lane);
  }
  // Held blocks were freed before those that the poll completes. The ages of segments, which
  // `collect_old_segments` compares, have to follow that order.
  if (stock.policy.collect_threshold > 0) held.shelve();
  const bool plain = stock.has_fronts && request.user.id() == request.owner.id();
  if (plain && ask_front) {
    if (Block* const block = quick.take_alone(request)) return report(block, request.lane);
  }
  if (plain && request.front != nullptr) upkeep.look_further(*request.front, request);
  if (waits && !asked) completions.ask(lock);
  completions.sweep([&](Block* block) { held.put_completed(block); });
  if (waits) {
    if (Block* const block = held.take(request)) return report(block, request.lane);
  }
  bool is_own = false;
  Block* const block = find(request, lock, is_own);
  hand_out(request, block, is_own);
  return block->address;
}

// Returns a claimed block for the request from the first source that has one, or throws. Sets
// `is_own` if the block is from the lane of the request.
Block* CachingAllocator::State::find(const Request& request, Lock& lock, bool& is_own) {
  is_own = false;
  if (Block* const block = joined_lanes.take_closer(request)) return block;
  Block* own = own_lane.take(request);
  if (own == nullptr && upkeep.empty_near(request)) own = own_lane.take(request);
  is_own = own != nullptr;
  if (is_own) return own;
  bool left_out = false;
  upkeep.empty_for(request);
  free_blocks.merge_former_lanes();
  if (Block* const block = search.find(request, lock, left_out)) return block;
  if (!stock.lanes_mix) {  // PyTorch calls the callbacks before it grows
    if (Block* const block = ask_callbacks(request, lock)) return block;
    giving_back.collect_old_segments(request, lock);
  }
  if (Block* const block = before_growth.take(request, lock, left_out)) return block;
  if (Block* const block = growth.grow(request, lock)) return block;
  return reclaim(request, lock);
}

// Makes a claimed block live. If `was_own`, the block was free in the lane of the request. Its
// remainder then stays in that lane, and has no neighbor to merge with: the whole block would have
// been merged with it.
void CachingAllocator::State::hand_out(const Request& request, Block* block, bool was_own) {
  const StreamId owner = request.owner.id(), user = request.user.id();
  if (free_blocks.worth_splitting(*block, request.bytes)) {
    Block* const rest = stock.heap.split(block, request.bytes);
    was_own ? free_blocks.shelve(rest) : free_blocks.put(rest);
  }
  block->lane = request.lane;
  stock.heap.live().insert(block);
  block->state = BlockState::live;
  block->spare = spare_of(*block, request.bytes);
  block->tag = request.tag;
  block->live = {request.requested, request.owner, LiveUses{request.next}, stock.new_id()};
  if (user != owner) {
    UseRecord& use_record = allocations.use_record_of(*block);
    use_record.user = user;
    use_record.uses.add(request.user);
    use_record.first_markers.user = {user, request.next_of_user};
  }
  upkeep.count_out(*block, request);
  static_cast<void>(report(block, user));
}

// Reports a block that was given out, and returns its address. If an observer throws, nobody learns
// the address, so the block is freed.
void* CachingAllocator::State::report(Block* block, StreamId user) {
  try {
    reports.allocated(*block, user);
  } catch (...) {
    take_back_unused(block);
    throw;
  }
  return block->address;
}

// Frees a block that no front kept. `stream`: nullptr stands for the owner.
void CachingAllocator::State::deallocate(void* address, const StreamRef* stream, Kept kept) {
  if (kept == Kept::marked) return free_marked(address);
  if (graphs.any() && graphs.deallocate(address, stream)) return;
  Lock lock = enter_to_serve();
  if (stock.policy.collect_threshold > 0)
    held.shelve();  // `collect_old_segments` needs to know how long each segment was free
  Block* const block = allocations.claim("deallocate", address);
  const StreamRef on = stream == nullptr ? block->live.owner : *stream;
  if (held.hold(block, on)) return;
  if (kept == Kept::ask && quick.keep_alone(block, on)) return;
  freeing.free_on(block, on, stream != nullptr, lock);
}

// Frees a claimed block whose points are set already.
void CachingAllocator::State::free_marked(void* address) {
  Block* const block = stock.heap.live().find(address);
  const Lock lock = live_again_on_error({&block, 1}, [&] { return enter(); });
  freeing.take_back(block, std::move(block->points));
}

void CachingAllocator::deallocate(void* address, Point marker) {
  if (address == nullptr) return;
  State& state = *state_;
  if (state.graphs.any() && state.graphs.deallocate(address, marker)) return;
  const Lock lock = state.enter();
  Block* const block = state.allocations.claim("deallocate", address);
  PointSet points;
  const bool kept = live_again_on_error({&block, 1}, [&] {
    block->first_markers().require_covered(marker, address);
    points.set(marker);
    const Frontier behind = state.stock.device.ledger().snapshot(marker);
    for (const Point point : block->points) {
      if (!behind.covers(point) && !state.stock.device.ledger().completed(point)) {
        points.join(point);
      }
    }
    return state.freeing.kept_for_graphs(block, points);
  });
  if (!kept) state.freeing.take_back(block, std::move(points));
}

void CachingAllocator::record_use(void* address, StreamRef stream) {
  if (address == nullptr) return;
  stream = state_->stock.resolve(stream);
  if (state_->stock.has_fronts && state_->quick_uses.record_use(address, stream)) return;
  if (state_->graphs.any() && state_->graphs.record_use(address, stream)) return;
  const Lock lock = state_->enter_to_serve();
  Block* const block = state_->allocations.find("record_use", address);
  if (state_->graphs.any() && state_->stock.device.captured(stream.id())) {
    // No front keeps a block that has a use record, so its free asks the graphs.
    state_->allocations.use_record_of(*block);
    if (state_->graphs.use(address, stream.id())) return;
  }
  if (state_->allocations.add_use(*block, stream)) {
    state_->reports.use_recorded(block->live.id, stream.id());
  }
}

void CachingAllocator::transfer(void* address, StreamRef new_owner) {
  if (address == nullptr) return;
  new_owner = state_->stock.device.resolve(new_owner);
  require_open("transfer", state_->stock.device, new_owner);
  if (state_->graphs.any() && state_->graphs.transfer(address, new_owner)) return;
  const Lock lock = state_->enter();
  state_->allocations.transfer(*state_->allocations.find("transfer", address), new_owner);
}

void CachingAllocator::on_out_of_memory(MemoryCallback callback, int turn) {
  const Lock lock = state_->enter();
  state_->callbacks.add(std::move(callback), turn);
}

// Puts all free memory on the shelves, then calls `release(lock)`.
template <typename Release>
auto CachingAllocator::State::release_free(Release&& release) {
  graphs.tidy();
  Lock lock = enter();
  const GivingOrder::Turn turn = giving_back.turn(lock);
  upkeep.empty();
  completions.sweep();  // frees the blocks that are known to be complete
  free_blocks.list_all();
  return release(lock);
}

bool CachingAllocator::release_segment(void* base) {
  return state_->release_free([&](Lock& lock) {
    return state_->giving_back.release_if_free(static_cast<std::byte*>(base), lock);
  });
}

std::size_t CachingAllocator::release_pages(std::span<const AddressRange> pages) {
  return state_->release_free(
      [&](Lock& lock) { return state_->range_pages.unmap_these(pages, lock); });
}

std::size_t CachingAllocator::trim(std::size_t keep_bytes) {
  state_->graphs.tidy();
  Lock lock = state_->enter();
  state_->upkeep.forget_demands();  // past needs say nothing about the time after a trim
  constexpr auto kAll = std::numeric_limits<std::size_t>::max();
  return state_->giving_back.release_free_memory(keep_bytes, kAll, lock);
}

void CachingAllocator::set_limit(std::size_t bytes) {
  const Lock lock = state_->enter();
  state_->allowance.set_limit(bytes);
}

void CachingAllocator::set_headroom(std::size_t bytes) {
  const Lock lock = state_->enter();
  state_->allowance.set_headroom(bytes);
}

OrderedDevice& CachingAllocator::device() const noexcept { return state_->stock.device; }
const Policy& CachingAllocator::policy() const noexcept { return state_->stock.policy; }

}  // namespace millrace
