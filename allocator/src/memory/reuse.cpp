#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "memory/caching_state.hpp"

namespace millrace {
namespace {

// PyTorch: an oversize request may be served by a block up to this much larger.
constexpr std::size_t kOversizeSlack = std::size_t{20} << 20;

}  // namespace

bool CachingAllocator::State::ready(const Block& block, StreamId user) const {
  const Ledger& ledger = device.ledger();
  const bool host_time = policy.sharing == Sharing::completed;
  return std::ranges::all_of(block.points, [&](const Point point) {
    return host_time ? ledger.completed(point) : ledger.ordered(point, user);
  });
}

bool CachingAllocator::State::worth_splitting(const Block& block, std::size_t bytes) const {
  const std::size_t rest = block.bytes - bytes;
  if (block.segment->small) return rest >= policy.small_remainder;
  const bool used = block.lane.valid();
  if (used && static_cast<double>(rest) < policy.slack * static_cast<double>(bytes)) return false;
  return bytes < policy.max_split && rest >= policy.large_remainder;
}

// Whether the claimed `block` may be merged with its neighbour without anybody losing by it.
bool CachingAllocator::State::mergeable(const Block& block, const Block& neighbour) const {
  if (neighbour.state != BlockState::free || neighbour.draining) return false;
  if (block.lane != neighbour.lane) return false;
  if (policy.sharing == Sharing::own_stream || block.points == neighbour.points) return true;
  return ready(block, block.lane) && ready(neighbour, neighbour.lane);
}

void CachingAllocator::State::claim(Block* block) {
  heap.claim(block);
  if (block->draining) {
    block->draining = false;
    std::erase(draining, block);
    meter.drained(block->bytes);
  }
}

void CachingAllocator::State::poll(Lock& lock) {
  lock.unlock();
  try {
    device.poll();
  } catch (...) {
    lock.lock();
    throw;
  }
  lock.lock();
  sweep();
}

void CachingAllocator::State::sweep() {
  std::erase_if(draining, [&](Block* block) {
    if (!ready(*block, block->lane)) return false;
    block->draining = false;
    meter.drained(block->bytes);
    return true;
  });
  if (pending.empty()) return;
  const Ledger& ledger = device.ledger();
  std::vector<Block*> done;
  std::erase_if(pending, [&](Block* block) {
    const bool complete = std::ranges::all_of(block->points, [&](const Point point) {
      return point.stream == block->lane || ledger.completed(point);
    });
    if (complete) done.push_back(block);
    return complete;
  });
  for (Block* block : done) {
    meter.drained(block->bytes);
    block->state = BlockState::claimed;
    put_free(block);
  }
}

// The order in which a request looks for a free block before the allocator grows.
Block* CachingAllocator::State::search(const Request& request, Lock& lock) {
  if (policy.sharing == Sharing::own_stream) {
    Block* block = take_own(request);
    if (block == nullptr) return nullptr;
    if (request.user.id() == request.owner.id()) return block;
    return wait_for_block(request, block, lock) ? block : nullptr;
  }
  if (Block* block = take_ready(request)) return block;
  poll(lock);
  if (Block* block = take_ready(request)) return block;
  if (Block* block = take_merged(request, carve_limit(request))) return block;
  if (policy.sharing != Sharing::wait_before_grow) return nullptr;
  const std::uint64_t old = long_ago(request);
  if (Block* block = take_waiting(request, old, lock)) return block;
  if (Block* block = take_merged_waiting(request, old, lock)) return block;
  return should_grow(request) ? nullptr : take_waiting(request, OrderedDevice::kTail, lock);
}

// PyTorch's best fit: the lane's smallest block that is large enough, then the lowest address.
Block* CachingAllocator::State::take_own(const Request& request) {
  FreeSet* lane = heap.lane(request.small, request.lane);
  if (lane == nullptr) return nullptr;
  const auto it = lane->lower_bound(request.bytes);
  if (it == lane->end()) return nullptr;
  Block* block = *it;
  if (!request.small) {
    const bool oversize = request.bytes >= policy.max_split;
    if (!oversize && block->bytes >= policy.max_split) return nullptr;
    if (oversize && block->bytes >= request.bytes + kOversizeSlack) return nullptr;
  }
  claim(block);
  ++meter.counts().served_own;
  return block;
}

Block* CachingAllocator::State::take_ready(const Request& request) {
  const auto smallest_ready = [&](FreeSet& lane, std::size_t limit) -> Block* {
    for (auto it = lane.lower_bound(request.bytes); it != lane.end(); ++it) {
      if ((*it)->bytes > limit) return nullptr;
      if (ready(**it, request.user.id())) return *it;
    }
    return nullptr;
  };
  constexpr auto kAny = std::numeric_limits<std::size_t>::max();

  if (FreeSet* own = heap.lane(request.small, request.lane)) {
    if (Block* block = smallest_ready(*own, kAny)) {
      claim(block);
      ++meter.counts().served_own;
      return block;
    }
  }
  Block* best = nullptr;
  for (auto& [stream, lane] : heap.lanes(request.small)) {
    if (stream == request.lane) continue;
    const std::size_t limit = kept_for_other(stream, request) ? carve_limit(request) : kAny;
    Block* block = smallest_ready(lane, limit);
    if (block == nullptr) continue;
    const auto rank = [](const Block* b) {
      return std::tuple{!b->lane.valid(), b->bytes, place_of(b)};
    };
    if (best == nullptr || rank(block) < rank(best)) best = block;
  }
  if (best == nullptr) return nullptr;
  claim(best);
  ++meter.counts().served_ordered;
  return best;
}

// Whether a large piece of `lane` would be missed by its stream if another carved it.
bool CachingAllocator::State::kept_for_other(StreamId lane, const Request& request) const {
  return lane.valid() && lane != request.lane && device.ledger().is_open(lane);
}

std::size_t CachingAllocator::State::carve_limit(const Request& request) const {
  return static_cast<std::size_t>(static_cast<double>(request.bytes) * policy.carve_limit);
}

// Where the least run of free neighbours begins that are all `usable` and together large enough. It
// has up to `most` bytes, if any of it is kept for another stream.
template <typename Usable>
Block* CachingAllocator::State::least_run(const Request& request, std::size_t most,
                                          const Usable& usable) {
  using Rank = std::pair<std::size_t, std::pair<std::size_t, std::byte*>>;
  Block* best = nullptr;
  Rank best_rank;
  for (const auto& [base, segment] : heap.segments()) {
    if (segment->small != request.small) continue;
    Block* first = nullptr;  // of the shortest run that ends at `block`
    std::size_t run = 0;
    std::size_t foreign = 0;  // blocks in the run that are kept for others
    for (Block* block = segment->first; block != nullptr; block = block->next) {
      if (block->state != BlockState::free || !usable(*block)) {
        first = nullptr;
        run = foreign = 0;
        continue;
      }
      if (first == nullptr) first = block;
      run += block->bytes;
      foreign += kept_for_other(block->lane, request) ? 1 : 0;
      while (run - first->bytes >= request.bytes) {
        run -= first->bytes;
        foreign -= kept_for_other(first->lane, request) ? 1 : 0;
        first = first->next;
      }
      const bool allowed = foreign == 0 || run <= most;
      if (run < request.bytes || !allowed) continue;
      const Rank rank{run, place_of(first)};
      if (best == nullptr || rank < best_rank) {
        best = first;
        best_rank = rank;
      }
    }
  }
  return best;
}

Block* CachingAllocator::State::take_merged(const Request& request, std::size_t most) {
  Block* best =
      least_run(request, most, [&](const Block& block) { return ready(block, request.user.id()); });
  if (best == nullptr) return nullptr;
  merge_until(best, request.bytes);
  best->lane = request.lane;
  ++meter.counts().served_ordered;
  return best;
}

// Claims `first` and the free blocks behind it, as one block of at least `bytes`.
void CachingAllocator::State::merge_until(Block* first, std::size_t bytes) {
  claim(first);
  while (first->bytes < bytes) {
    Block* next = first->next;
    claim(next);
    join_points(first->points, next->points);
    heap.absorb(first, next);
  }
}

// The newest marker that a request may wait for although its stream could still grow. What was last
// used before its previous burst began has had a whole burst's time: a batch's, where the stream is
// marked once a batch, so that waiting for it keeps nothing from running ahead by a batch.
std::uint64_t CachingAllocator::State::long_ago(const Request& request) const {
  const auto it = demand.find(request.lane);
  if (it == demand.end()) return 0;
  const bool burst_begins = device.ledger().next(request.lane) != it->second.marker;
  return burst_begins ? it->second.began : it->second.previous_began;
}

// A stream gets so much of its own that it need not wait: what it ever held, and some bursts more.
bool CachingAllocator::State::should_grow(const Request& request) const {
  const auto it = demand.find(request.lane);
  if (it == demand.end()) return policy.spare_bursts > 0;
  std::size_t kept = it->second.live.current + request.bytes;
  const auto& lanes = heap.lanes(request.small);
  if (const auto lane = lanes.find(request.lane); lane != lanes.end()) {
    for (const Block* block : lane->second) kept += block->bytes;
  }
  const double spare = policy.spare_bursts * static_cast<double>(it->second.largest_burst);
  return static_cast<double>(kept) <= static_cast<double>(it->second.live.peak) + spare;
}

void CachingAllocator::State::count_demand(const Block& block) {
  Demand& lane = demand[block.lane];
  lane.live.add(block.bytes);
  const Marker marker = device.ledger().next(block.lane);
  if (marker != lane.marker) {
    lane.burst = 0;
    lane.previous_began = std::exchange(lane.began, device.newest_marker());
  }
  lane.marker = marker;
  lane.burst += block.bytes;
  lane.largest_burst = std::max(lane.largest_burst, lane.burst);
}

void CachingAllocator::State::uncount_demand(const Block& block) {
  const auto it = demand.find(block.lane);
  if (it == demand.end()) return;
  it->second.live.subtract(std::min(block.bytes, it->second.live.current));
  const bool gone = it->second.live.current == 0 && !device.ledger().is_open(block.lane);
  if (gone) demand.erase(it);
}

// The block whose last missing marker was recorded earliest, and not after `newest`; among equals
// the best fit.
Block* CachingAllocator::State::take_waiting(const Request& request, std::uint64_t newest,
                                             Lock& lock) {
  using Rank = std::tuple<std::uint64_t, std::size_t, std::pair<std::size_t, std::byte*>>;
  Block* best = nullptr;
  Rank best_rank;
  for (auto& [stream, lane] : heap.lanes(request.small)) {
    for (auto it = lane.lower_bound(request.bytes); it != lane.end(); ++it) {
      if (kept_for_other(stream, request) && (*it)->bytes > carve_limit(request)) break;
      std::uint64_t latest = 0;
      const bool possible = std::ranges::all_of((*it)->points, [&](const Point point) {
        const auto when = device.earliest_wait(request.user.id(), point);
        if (when) latest = std::max(latest, *when);
        return when.has_value();
      });
      const Rank rank{latest, (*it)->bytes, place_of(*it)};
      if (possible && latest <= newest && (best == nullptr || rank < best_rank)) {
        best = *it;
        best_rank = rank;
      }
    }
  }
  if (best == nullptr) return nullptr;
  claim(best);
  if (!wait_for_block(request, best, lock)) return nullptr;
  ++meter.counts().served_waited;
  return best;
}

// Orders the user after the claimed block's points, or puts it back and returns false.
bool CachingAllocator::State::wait_for_block(const Request& request, Block* block, Lock& lock) {
  const std::vector<Point> points = block->points;
  const Ledger& ledger = device.ledger();
  std::uint64_t waits = 0;
  bool waited = true;
  lock.unlock();
  try {
    for (const Point point : points) {
      if (ledger.ordered(point, request.user.id())) continue;
      waited = waited && device.wait_for(request.user, point);
      ++waits;
    }
  } catch (...) {
    lock.lock();
    put_free(block);
    throw;
  }
  lock.lock();
  meter.counts().waits_inserted += waits;
  if (!waited) put_free(block);
  return waited;
}

// Free neighbours, with all that they wait for. Under pressure, which is when `newest` is the tail,
// whomever they are kept for.
Block* CachingAllocator::State::take_merged_waiting(const Request& request, std::uint64_t newest,
                                                    Lock& lock) {
  const auto reachable = [&](const Block& block) {
    if (newest != OrderedDevice::kTail && kept_for_other(block.lane, request)) return false;
    return std::ranges::all_of(block.points, [&](const Point point) {
      const auto when = device.earliest_wait(request.user.id(), point);
      return when && *when <= newest;
    });
  };
  constexpr auto kAny = std::numeric_limits<std::size_t>::max();
  Block* best = least_run(request, kAny, reachable);
  if (best == nullptr) return nullptr;
  merge_until(best, request.bytes);
  if (!wait_for_block(request, best, lock)) return nullptr;
  ++meter.counts().served_waited;
  return best;
}

}  // namespace millrace
