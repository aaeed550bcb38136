#include "memory/caching/front_upkeep.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "ordering/steps.hpp"

namespace millrace {
namespace {

// Size from which kept blocks are released because they may merge into one block of `bytes`.
std::size_t least_near(std::size_t bytes) {
  constexpr std::size_t kParts = 8;
  return std::clamp(bytes / kParts, ClassBins::kGranule, ClassBins::kLargest);
}

}  // namespace

FrontUpkeep::Paused::Paused(FrontUpkeep& upkeep) : upkeep_(upkeep) {
  Stock& stock = upkeep.stock_;
  stock.shut.store(true, std::memory_order_relaxed);
  if (stock.turns.pass_all()) return;
  stock.fronts.for_each([&](Front& front) {
    ordering::count_steps(1);
    const auto hold = stock.turns.hold(front);  // threads that missed `shut` have left
    stock.turns.add(front);
  });
}

Front* FrontUpkeep::of(StreamId stream) {
  if (!stock_.has_fronts || !stream.valid()) return nullptr;
  if (stock_.device.capturing() && stock_.device.captured(stream)) return nullptr;
  Front& front = stock_.fronts.at(stream.slot);
  const StreamId served = front.stream();
  if (served == stream) return &front;
  if (served.generation > stream.generation) return nullptr;
  give_up(retire(front, stream));
  return &front;
}

// Makes the front serve `next`. Returns the blocks that it kept for its former stream, linked by
// `next_quick`.
Block* FrontUpkeep::retire(Front& front, StreamId next) {
  const auto hold = stock_.turns.hold(front);
  stock_.turns.add(front);
  Block* const left = front.quick.take_all();
  front.demand = {};
  front.serve(next);
  return left;
}

// A large request releases all large blocks of its front, because a merged block may fit better. A
// small request releases only blocks that would leave its own block no room in the front; other
// small blocks stay until memory would grow.
void FrontUpkeep::look_further(Front& front, const Request& request) {
  const bool is_small = QuickBins::is_small(request.bytes);
  if (is_small ? !stock_.with_small.any() : !front.quick.has_large()) return;
  Block* kept = nullptr;
  {
    const auto hold = stock_.turns.hold(front);
    kept = is_small ? front.quick.take_hindering(request.bytes, front.demand.live.peak)
                    : front.quick.take_large();
  }
  give_up(kept);
}

void FrontUpkeep::add_tally(StreamId stream) {
  Front* const front = stock_.fronts.find(stream);
  if (front == nullptr) return;
  const auto hold = stock_.turns.hold(*front);
  stock_.turns.add(*front);
}

bool FrontUpkeep::empty_near(const Request& request) {
  if (request.front == nullptr || !QuickBins::is_small(request.bytes)) return false;
  if (!stock_.with_small.any()) return false;
  Block* near = nullptr;
  {
    const auto hold = stock_.turns.hold(*request.front);
    near = request.front->quick.take_small_from(least_near(request.bytes));
  }
  give_up(near);
  return near != nullptr;
}

void FrontUpkeep::empty() {
  empty_small();
  empty_large();
}

// If the bins are pools, blocks of the other pool stay: they never merge with blocks of the
// searched pool.
void FrontUpkeep::empty_for(const Request& request) {
  if (request.small || !stock_.bins_are_pools) empty_small(least_near(request.bytes));
  if (!request.small || !stock_.bins_are_pools) empty_large();
}

void FrontUpkeep::empty_small(std::size_t least) {
  Block* blocks = nullptr;
  const auto take = [&](Front& front) {
    if (front.has_uncounted())
      stock_.turns.add(front);  // the meter counts frees before blocks that wait drain
    blocks = front.quick.take_small(least);
    if (front.quick.has_small()) stock_.with_small.add(front);
  };
  stock_.with_small.take_all(stock_.turns, take, [&] { give_up(blocks); });
}

void FrontUpkeep::empty_large() {
  Block* blocks = nullptr;
  stock_.with_large.take_all(
      stock_.turns, [&](Front& front) { blocks = front.quick.take_large(); },
      [&] { give_up(blocks); });
}

void FrontUpkeep::give_up(Block* first) {
  for (Block* block = first; block != nullptr;) {
    Block* const next = block->next_quick;
    stock_.heap.live().erase(block);
    block->state = BlockState::claimed;
    free_blocks_.put(block);
    block = next;
  }
}

void FrontUpkeep::count_out(Block& block, const Request& request) {
  const StreamId owner = request.owner.id();
  const bool is_owners = request.lane == owner;
  const bool is_served = request.front != nullptr && request.front->stream() == request.lane;
  Front* const front = is_served ? request.front : stock_.has_fronts ? of(request.lane) : nullptr;
  bool is_counted = false;
  if (front != nullptr) {
    const auto hold = stock_.turns.hold(*front);
    if (is_owners) {
      front->quick.expect(request.bytes);
      is_counted = !reports_.any() && stock_.turns.allocate(*front, request.requested, block);
    }
    front->demand.count(block.bytes, is_owners ? request.next : request.next_of_user,
                        [&] { return stock_.device.newest_marker(); });
  }
  if (is_counted) return;
  add_tally(owner);
  stock_.turns.current().allocated(request.requested, block.bytes, owner, block.tag);
}

WhileLive FrontUpkeep::count_in(Block& block, bool uses_may_go_on) {
  const WhileLive was = block.live;
  const StreamId owner = was.owner.id();
  bool is_counted = false;
  if (Front* const front = stock_.has_fronts ? stock_.fronts.find(block.lane) : nullptr) {
    const auto hold = stock_.turns.hold(*front);
    front->demand.uncount(block.bytes);
    const bool may_wait = block.lane == owner && !reports_.any() && !uses_may_go_on;
    is_counted = may_wait && stock_.turns.free(*front, was.requested, block);
  }
  if (!is_counted) {
    add_tally(owner);
    stock_.turns.current().freed(was.requested, block.bytes, owner, block.tag);
  }
  if (!was.uses.by_owner_only()) stock_.heap.forget(was.uses.record());
  return was;
}

Demand FrontUpkeep::demand_of(StreamId stream) const {
  Front* const front = stock_.fronts.find(stream);
  if (front == nullptr) return {};
  const auto hold = stock_.turns.hold(*front);
  return front->demand;
}

void FrontUpkeep::continue_burst(Point marker) {
  Front* const front = stock_.fronts.find(marker.stream);
  if (front == nullptr) return;
  const auto hold = stock_.turns.hold(*front);
  Demand& demand = front->demand;
  if (demand.marker == marker.marker) demand.marker = stock_.device.ledger().next(marker.stream);
}

void FrontUpkeep::close(StreamId stream) {
  Front* const front = stock_.has_fronts ? stock_.fronts.find(stream) : nullptr;
  if (front != nullptr) give_up(retire(*front, {}));
}

void FrontUpkeep::forget_demands() {
  stock_.fronts.for_each([&](Front& front) {
    const auto hold = stock_.turns.hold(front);
    const Gauge live = front.demand.live;
    front.demand = {};
    front.demand.live.add(live.current);  // live blocks stay
    front.demand.peaks.front() = live.current;
  });
}

}  // namespace millrace
