// What a free says, and where the block is kept.

#include <algorithm>
#include <span>
#include <utility>

#include "memory/caching/try_mark.hpp"
#include "memory/caching_state.hpp"

namespace millrace {

// What no front kept. `stream`: nullptr for the owner.
void CachingAllocator::State::deallocate(void* address, const StreamRef* stream, Kept kept) {
  if (kept == Kept::marked) return free_marked(address);
  if (graphs.any() && graphs.deallocate(address, stream)) return;
  Lock lock = enter_to_serve();
  if (stock.policy.collect_threshold > 0)
    let_go();  // it asks which segment has been free for longest
  Block* const block = claim_live("deallocate", address);
  const StreamRef on = stream == nullptr ? block->live.owner : *stream;
  if (!stock.lanes_mix) {
    try {
      let_go(block->lane);
    } catch (...) {
      block->state = BlockState::live;
      throw;
    }
    if (hold(block, on)) return;
  }
  if (kept == Kept::ask && quick.keep_alone(block, on)) return;
  free_on(block, on, stream != nullptr, lock);
}

// A claimed block that has its points.
void CachingAllocator::State::free_marked(void* address) {
  Block* const block = stock.heap.live().find(address);
  Lock lock;
  try {
    lock = enter();
  } catch (...) {
    block->state = BlockState::live;
    throw;
  }
  take_back(block, std::move(block->points));
}

// The live block at `address`, claimed: another thread that frees it meanwhile is refused. A thread
// that keeps it in a front changes its state under the front's lock.
Block* CachingAllocator::State::claim_live(const char* call, void* address) {
  Block* const block = live_block(call, address);
  const auto hold = upkeep.hold(*block);
  if (block->state != BlockState::live) refuse_address(call, address);
  block->state = BlockState::claimed;
  return block;
}

// Frees a claimed block that only its lane's stream has used. False: not this one.
bool CachingAllocator::State::free_plainly(Block* block, StreamRef stream) {
  if (block->live.company != nullptr || stream.id() != block->lane) return false;
  if (!stock.follows_order) return false;  // its own stream may have to wait too
  const Marker next = stock.device.ledger().next_if_open(stream.id());
  if (next == 0) return false;
  stock.heap.live().erase(block);
  const WhileLive was = upkeep.count_in(*block, false);
  const Point point{stream.id(), next};
  block->points = PointSet{point};
  reports.freed(was, *block, {&point, 1});
  free_blocks.put(block, nullptr);
  return true;
}

// Frees a claimed block, which is live again if it throws. `given`: the caller named the stream in
// this call, so that it exists. A block that graphs use stays live; its uses are marked all the
// same, while their streams exist.
void CachingAllocator::State::free_on(Block* block, StreamRef stream, bool given, Lock& lock) {
  if (free_plainly(block, stream)) return;  // what graphs use has company
  PointSet points;
  try {
    Few<StreamRef> used;
    points = points_of_free(*block, stream, given, used);
    if (!used.empty()) mark(used, lock);
    if (graphs.any() && graphs.keep(block->address, points)) {
      block->state = BlockState::live;
      return;
    }
  } catch (...) {
    block->state = BlockState::live;
    throw;
  }
  take_back(block, std::move(points));
}

// What comes before the next use of a block that is freed on `stream`. `used`: streams that are to
// be marked for it are added.
PointSet CachingAllocator::State::points_of_free(const Block& freed, StreamRef stream, bool given,
                                                 Few<StreamRef>& used) const {
  const Block* const block = &freed;
  const Ledger& ledger = stock.device.ledger();
  PointSet points{Point{stream.id(), ledger.next(stream.id())}};
  const Company* const company = block->live.company;
  const StreamId user = company == nullptr ? block->live.owner.id() : company->user;
  const auto mark_later = [&](const StreamRef use) {
    const auto same = [&](const StreamRef known) { return known.id() == use.id(); };
    if (std::ranges::none_of(used, same)) used.push_back(use);
  };
  if (company != nullptr) {
    for (const StreamRef use : company->uses) {
      if (use.id() == stream.id()) continue;
      points.join({use.id(), ledger.next(use.id())});
      if (ledger.is_open(use.id())) mark_later(use);  // a closed one left its last marker
    }
  }
  // A host poll needs something to poll.
  const bool polled = stock.polls_frees && stream.id() != block->lane;
  if (polled && (given || stock.device.attached(stream.id())) && ledger.is_open(stream.id())) {
    mark_later(stream);
  }
  // Earlier tenants come before the work of the user that was made to wait for them; of others only
  // this free knows.
  const bool behind_user =
      std::ranges::any_of(points, [&](const Point point) { return point.stream == user; });
  if (!behind_user) {
    for (const Point point : block->points) {
      if (!ledger.ordered(point, stream.id())) points.join(point);
    }
  }
  return points;
}

void CachingAllocator::State::mark(const Few<StreamRef>& streams, Lock& lock) {
  const Unlocked unlocked{lock};
  for (const StreamRef stream : streams) try_mark(stock.device, stream);
}

void CachingAllocator::deallocate(void* address, Point marker) {
  if (address == nullptr) return;
  State& state = *state_;
  if (state.graphs.any() && state.graphs.deallocate(address, marker)) return;
  const Lock lock = state.enter();
  Block* const block = state.claim_live("deallocate", address);
  PointSet points{marker};
  try {
    block->first_markers().require_covered(marker, address);
    const Frontier behind = state.stock.device.ledger().snapshot(marker);
    for (const Point point : block->points) {
      if (!behind.covers(point) && !state.stock.device.ledger().completed(point)) {
        points.join(point);
      }
    }
    if (state.graphs.any() && state.graphs.keep(address, points)) {
      block->state = BlockState::live;
      return;
    }
  } catch (...) {
    block->state = BlockState::live;
    throw;
  }
  state.take_back(block, std::move(points));
}

// Frees a claimed block that was live.
void CachingAllocator::State::take_back(Block* block, PointSet points) {
  const WhileLive was = upkeep.count_in(*block, true);
  block->points = std::move(points);
  reports.freed(was, *block, {block->points.begin(), block->points.end()});
  if (quick_uses.wait(block)) return;
  stock.heap.live().erase(block);
  const bool used_elsewhere = std::ranges::any_of(
      block->points, [&](const Point point) { return point.stream != block->lane; });
  if (stock.polls_frees && used_elsewhere) {
    completions.hold_back(block);
  } else {
    free_blocks.put(block);
  }
}

}  // namespace millrace
