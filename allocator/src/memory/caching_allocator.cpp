#include "millrace/memory/caching_allocator.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

#include "memory/caching_state.hpp"
#include "memory/contract.hpp"

namespace millrace {

CachingAllocator::CachingAllocator(OrderedDevice& device, SegmentSource& source, Policy policy,
                                   MemoryLimits limits)
    : state_(std::make_unique<State>(device, source, std::move(policy), limits)) {
  try {
    state_->capacity = device.device().memory_info().total;
  } catch (const DeviceError&) {  // segments are then as large as the policy likes them
  }
}

CachingAllocator::~CachingAllocator() {
  try {
    state_->device.synchronize();
    for (const auto& [base, segment] : state_->heap.segments()) {
      if (segment->growable()) {
        state_->release_range(*segment);
      } else {
        state_->source.release(base, segment->bytes);
      }
    }
  } catch (const DeviceError&) {  // the device is lost: so is its memory
  }
}

Block* CachingAllocator::State::live_block(const char* call, const void* address) const {
  Block* const block = heap.live().find(address);
  if (block == nullptr || block->state != BlockState::live) refuse_address(call, address);
  return block;
}

void* CachingAllocator::allocate(std::size_t bytes, StreamRef owner, StreamRef first_user,
                                 Tag tag) {
  if (bytes == 0) return nullptr;
  State& state = *state_;
  const bool same = owner.handle() == first_user.handle() && owner.id() == first_user.id();
  owner = state.device.resolve(owner);
  first_user = same ? owner : state.device.resolve(first_user);
  require_open("allocate", state.device, owner);
  if (!same) require_open("allocate", state.device, first_user);
  const std::size_t largest = std::numeric_limits<std::ptrdiff_t>::max();
  State::Request request{bytes, bytes, false, owner, first_user, tag, {}};
  if (bytes > largest - state.policy.segment_multiple) {
    State::Lock lock = state.enter();
    state.fail(request, lock);
  }
  request.bytes = state.policy.round(bytes);
  request.small = request.bytes <= state.policy.small_limit;
  request.lane = state.policy.sharing == Sharing::own_stream ? owner.id() : first_user.id();
  return state.serve(request)->address;
}

Block* CachingAllocator::State::serve(const Request& request) {
  const bool plain = has_fronts && request.user.id() == request.owner.id();
  QuickAnswer quick;
  if (plain) quick = take_quick(request);
  if (quick.block != nullptr) return quick.block;
  Lock lock = enter();
  if (!meter.known(request.tag)) {
    throw std::invalid_argument{"allocate: this tag is not one of this allocator's"};
  }
  if (quick.ask) {
    if (Block* const block = take_quick_alone(request)) return block;
  }
  if (plain) look_further(request);
  if (!pending.empty()) poll(lock);
  sweep();
  Block* const block = find(request, lock);
  hand_out(request, block);
  return block;
}

// A claimed block that serves, from wherever there is one.
Block* CachingAllocator::State::find(const Request& request, Lock& lock) {
  Block* block = has_fronts ? take_ready_own(request) : nullptr;
  if (block == nullptr) {
    empty_quick();
    merge_former_lanes();
    block = search(request, lock);
  }
  if (block == nullptr && policy.sharing == Sharing::own_stream) {
    block = ask_callbacks(request, lock);  // PyTorch asks before it grows
    if (block == nullptr) collect_old_segments(request, lock);
  }
  if (block == nullptr) block = grow(request, lock);
  if (block == nullptr) block = reclaim(request, lock);
  return block;
}

void CachingAllocator::State::hand_out(const Request& request, Block* block) {
  const Ledger& ledger = device.ledger();
  const StreamId owner = request.owner.id(), user = request.user.id();
  if (worth_splitting(*block, request.bytes)) put_free(heap.split(block, request.bytes));
  block->lane = request.lane;
  heap.live().insert(block);
  block->inherited = std::exchange(block->points, {});
  block->state = BlockState::live;
  block->id = next_id.fetch_add(1, std::memory_order_relaxed);
  block->requested = request.requested;
  block->rounded = request.bytes;
  block->owner = request.owner;
  block->user = user;
  block->uses.clear();
  if (user != owner) block->uses.push_back(request.user);
  block->tag = request.tag;
  const Point of_owner{owner, ledger.next(owner)};
  const Point of_user = user == owner ? of_owner : Point{user, ledger.next(user)};
  block->first_markers = {of_owner, of_user};
  const Marker next = request.lane == owner ? of_owner.marker : of_user.marker;
  count_demand(request.lane, *block, next);
  add_tally(owner);
  meter.allocated(block->requested, block->bytes, owner, block->tag);
  tell_allocated(*block, user);
}

void CachingAllocator::State::tell_allocated(const Block& block, StreamId user) {
  if (observer == nullptr) return;
  const Frontier frontier = device.ledger().frontier(user);
  const Frontier completed = device.ledger().completed_frontier();
  observer->allocated({block.id, block.address, block.requested, block.bytes, block.owner.id(),
                       user, meter.name(block.tag), frontier, completed});
}

void CachingAllocator::deallocate(void* address) {
  if (address != nullptr) state_->deallocate(address, nullptr);
}

void CachingAllocator::deallocate(void* address, StreamRef stream) {
  if (address == nullptr) return;
  stream = state_->device.resolve(stream);
  state_->deallocate(address, &stream);
}

// `stream`: nullptr for the owner.
void CachingAllocator::State::deallocate(void* address, const StreamRef* stream) {
  const Kept kept = has_fronts ? keep_quick(address, stream) : Kept::no;
  if (kept == Kept::yes) return;
  Lock lock = enter();
  Block* const block = live_block("deallocate", address);
  const StreamRef on = stream == nullptr ? block->owner : *stream;
  if (kept == Kept::ask && keep_quick_alone(block, on)) return;
  free_on(block, on, stream != nullptr, lock);
}

// `given`: by the caller in this call, so that it is there still.
void CachingAllocator::State::free_on(Block* block, StreamRef stream, bool given, Lock& lock) {
  std::vector<StreamRef> used;
  PointSet points = points_of_free(*block, stream, given, used);
  heap.live().erase(block);
  block->state = BlockState::claimed;
  if (!used.empty()) mark(used, lock);
  take_back(block, std::move(points));
}

// What comes before the next use of a block that is freed on `stream`. `used`: streams that are to
// be marked for it are added.
PointSet CachingAllocator::State::points_of_free(const Block& freed, StreamRef stream, bool given,
                                                 std::vector<StreamRef>& used) const {
  const Block* const block = &freed;
  const Ledger& ledger = device.ledger();
  PointSet points{Point{stream.id(), ledger.next(stream.id())}};
  for (const StreamRef use : block->uses) {
    if (use.id() == stream.id()) continue;
    points.join({use.id(), ledger.next(use.id())});
    if (ledger.is_open(use.id())) used.push_back(use);  // a closed one left its last marker
  }
  // A host poll needs something to poll.
  const bool polled = policy.give_back == Return::polled && stream.id() != block->lane;
  if (polled && (given || device.attached(stream.id())) && ledger.is_open(stream.id())) {
    used.push_back(stream);
  }
  // Earlier tenants come before the work of the user that was made to wait for them; of others only
  // this free knows.
  const bool behind_user =
      std::ranges::any_of(points, [&](const Point point) { return point.stream == block->user; });
  if (!behind_user) {
    for (const Point point : block->inherited) {
      if (!ledger.ordered(point, stream.id())) points.join(point);
    }
  }
  return points;
}

void CachingAllocator::State::mark(const std::vector<StreamRef>& streams, Lock& lock) {
  const Unlocked unlocked{lock};
  for (const StreamRef stream : streams) {
    try {
      device.mark(stream);
    } catch (const DeviceError&) {  // no marker: a later one of that stream will cover it
    }
  }
}

void CachingAllocator::deallocate(void* address, Point marker) {
  if (address == nullptr) return;
  State& state = *state_;
  const State::Lock lock = state.enter();
  Block* const block = state.live_block("deallocate", address);
  block->first_markers.require_covered(marker, address);
  PointSet points{marker};
  const Frontier behind = state.device.ledger().snapshot(marker);
  for (const Point point : block->inherited) {
    if (!behind.covers(point) && !state.device.ledger().completed(point)) {
      points.join(point);
    }
  }
  state.heap.live().erase(block);
  block->state = BlockState::claimed;
  state.take_back(block, std::move(points));
}

void CachingAllocator::State::take_back(Block* block, PointSet points) {
  uncount_demand(*block);
  add_tally(block->owner.id());
  meter.freed(block->requested, block->bytes, block->owner.id(), block->tag);
  block->points = std::move(points);
  if (observer != nullptr) {
    const std::span<const Point> behind{block->points.begin(), block->points.end()};
    observer->freed({block->id, block->address, block->bytes, behind});
  }
  const bool used_elsewhere = std::ranges::any_of(
      block->points, [&](const Point point) { return point.stream != block->lane; });
  if (policy.give_back == Return::polled && used_elsewhere) {
    block->state = BlockState::pending;
    pending.insert(block);
    meter.draining(block->bytes);
  } else {
    put_free(block);
  }
}

// Puts a claimed block into its lane, with the free neighbours that it can be merged with.
void CachingAllocator::State::put_free(Block* block) {
  const bool own = policy.sharing == Sharing::own_stream;
  if (own || shelves.ready(*block, block->lane)) {
    if (Block* const left = block->previous; mergeable(left, block->lane)) {
      claim(left);
      left->points.join(block->points);
      heap.absorb(left, block);
      block = left;
    }
    if (Block* const right = block->next; mergeable(right, block->lane)) {
      claim(right);
      block->points.join(right->points);
      heap.absorb(block, right);
    }
  }
  if (block->bytes == block->segment->bytes) block->segment->age = ++clock;
  shelve(block);
  if (!own && block->waits == Waits::for_all) meter.draining(block->bytes);
}

void CachingAllocator::State::shelve(Block* block) {
  shelves.put(block);
  if (policy.sharing != Sharing::own_stream) runs.freed(block);
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

void CachingAllocator::record_use(void* address, StreamRef stream) {
  if (address == nullptr) return;
  stream = state_->device.resolve(stream);
  const State::Lock lock = state_->enter();
  Block* const block = state_->live_block("record_use", address);
  const auto same = [&](const StreamRef use) { return use.id() == stream.id(); };
  if (same(block->owner) || std::ranges::any_of(block->uses, same)) return;
  block->uses.push_back(stream);
  if (state_->observer != nullptr) state_->observer->use_recorded(block->id, stream.id());
}

void CachingAllocator::transfer(void* address, StreamRef new_owner) {
  if (address == nullptr) return;
  new_owner = state_->device.resolve(new_owner);
  require_open("transfer", state_->device, new_owner);
  const State::Lock lock = state_->enter();
  Block* const block = state_->live_block("transfer", address);
  if (block->owner.id() == new_owner.id()) return;
  block->uses.erase_if([&](const StreamRef use) { return use.id() == new_owner.id(); });
  block->uses.push_back(block->owner);
  state_->add_tally(block->owner.id());
  state_->add_tally(new_owner.id());
  state_->meter.moved(block->bytes, block->owner.id(), new_owner.id());
  block->owner = new_owner;
}

void CachingAllocator::on_out_of_memory(MemoryCallback callback, int turn) {
  const State::Lock lock = state_->enter();
  const auto after = std::ranges::upper_bound(state_->callbacks, turn, {}, &State::Callback::turn);
  state_->callbacks.insert(after, {turn, std::move(callback)});
}

void CachingAllocator::set_limit(std::size_t bytes) {
  const State::Lock lock = state_->enter();
  state_->limits.limit = bytes;
}

void CachingAllocator::set_headroom(std::size_t bytes) {
  const State::Lock lock = state_->enter();
  state_->limits.headroom = bytes;
}

OrderedDevice& CachingAllocator::device() const noexcept { return state_->device; }
const Policy& CachingAllocator::policy() const noexcept { return state_->policy; }

}  // namespace millrace
