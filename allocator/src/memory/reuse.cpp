#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "memory/caching_state.hpp"
#include "ordering/steps.hpp"

namespace millrace {
namespace {

// PyTorch: an oversize request may be served by a block up to this much larger.
constexpr std::size_t kOversizeSlack = std::size_t{20} << 20;

constexpr auto kAny = std::numeric_limits<std::size_t>::max();

// A request looks at no more lanes, or blocks of one lane, or runs than these before it does
// without: it may then wait or grow where the next would have served it, but is never slow.
constexpr std::size_t kMostLooks = 64;

// The first block of at least `bytes`, and at most `limit`, that is `usable`.
template <typename Index, typename Usable>
Block* first_usable(const Index& index, std::size_t bytes, std::size_t limit,
                    const Usable& usable) {
  Block* block = index.first(bytes);
  for (std::size_t looks = 0; block != nullptr && looks < kMostLooks; ++looks) {
    ordering::count_steps(1);
    if (block->bytes > limit) return nullptr;
    if (usable(*block)) return block;
    block = index.after(block);
  }
  return nullptr;
}

}  // namespace

bool CachingAllocator::State::worth_splitting(const Block& block, std::size_t bytes) const {
  return worth_splitting(block, block.bytes, bytes);
}

// The same for a block of `block_bytes` in the place of `like`.
bool CachingAllocator::State::worth_splitting(const Block& like, std::size_t block_bytes,
                                              std::size_t bytes) const {
  const std::size_t rest = block_bytes - bytes;
  if (like.segment->small) return rest >= policy.small_remainder;
  const bool used = like.lane.valid();
  if (used && static_cast<double>(rest) < policy.slack * static_cast<double>(bytes)) return false;
  return bytes < policy.max_split && rest >= policy.large_remainder;
}

// Whether a claimed block of `lane`, which that may have, becomes one with its neighbour.
bool CachingAllocator::State::mergeable(const Block* neighbour, StreamId lane) const {
  return neighbour != nullptr && neighbour->state == BlockState::free &&
         neighbour->waits != Waits::for_all && neighbour->lane == lane;
}

void CachingAllocator::State::claim(Block* block) {
  const bool own = policy.sharing == Sharing::own_stream;
  if (!own && block->waits == Waits::for_all) meter.drained(block->bytes);
  const bool is_in_run = !own && block->waits != Waits::unlisted;
  shelves.claim(block);
  if (is_in_run) runs.claimed(block);
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

// What polls have shown: blocks of other lanes are complete.
void CachingAllocator::State::settle() {
  list_all();
  const std::uint64_t now = device.ledger().epoch();
  if (std::exchange(settled, now) != now) shelves.settle();
}

void CachingAllocator::State::sweep() {
  const std::uint64_t now = device.ledger().epoch();
  if (std::exchange(swept, now) == now && !pending.any_done()) return;
  const std::vector<Block*>& drained = shelves.drained();
  for (Block* const block : drained) {
    meter.drained(block->bytes);
    runs.claimed(block);
  }
  for (Block* const block : drained) put_free(block);
  if (pending.empty()) return;
  for (Block* const block : pending.completed()) {
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
  let_go();  // another thread or a callback may have freed one since the request began
  Lane* const lane = shelves.find(request.lane);
  if (lane == nullptr) return nullptr;
  Block* const block = lane->shelf(request.small).ready.first(request.bytes);
  if (block == nullptr) return nullptr;
  if (!request.small) {
    const bool oversize = request.bytes >= policy.max_split;
    if (!oversize && block->bytes >= policy.max_split) return nullptr;
    if (oversize && block->bytes >= request.bytes + kOversizeSlack) return nullptr;
  }
  claim(block);
  ++meter.counts().served_own;
  return block;
}

// The first step of a search. What other fronts keep does not change it.
Block* CachingAllocator::State::take_ready_own(const Request& request) {
  if (policy.sharing == Sharing::own_stream) {
    return request.user.id() == request.owner.id() ? take_own(request) : nullptr;
  }
  Lane* const lane = shelves.find(request.lane);
  if (lane == nullptr) return nullptr;
  Block* const block = lane->shelf(request.small).ready.first(request.bytes);
  if (block == nullptr) return nullptr;
  claim(block);
  ++meter.counts().served_own;
  return block;
}

Block* CachingAllocator::State::take_ready(const Request& request) {
  if (Block* const block = take_ready_own(request)) return block;
  settle();
  Block* best = least_complete(request);
  if (policy.sharing != Sharing::completed) {
    Block* const ordered = least_ordered(request);
    if (best == nullptr || (ordered != nullptr && fits_before(ordered, best))) best = ordered;
  }
  if (best == nullptr) best = shelves.nobodys().shelf(request.small).ready.first(request.bytes);
  if (best == nullptr) return nullptr;
  claim(best);
  ++meter.counts().served_ordered;
  return best;
}

// The best fit of other lanes that the device has finished with.
Block* CachingAllocator::State::least_complete(const Request& request) {
  const std::size_t limit = carve_limit(request);
  return first_usable(shelves.complete(request.small), request.bytes, kAny, [&](const Block& b) {
    return b.bytes <= limit || !kept_for_other(b.lane, request);
  });
}

// The best fit of other lanes that the user is ordered after although it is not complete.
Block* CachingAllocator::State::least_ordered(const Request& request) {
  if (!shelves.any_waits()) return nullptr;
  const StreamId user = request.user.id();
  std::vector<StreamId> before;
  for (const Point point : device.ledger().frontier(user)) before.push_back(point.stream);
  ordering::count_steps(before.size());
  Block* best = nullptr;
  const auto usable = [&](const Block& block) { return shelves.ready(block, user); };
  for (Lane* const lane : shelves.waiting_for(before, shelves.find(request.lane), kMostLooks)) {
    const std::size_t limit = kept_for_other(lane->stream, request) ? carve_limit(request) : kAny;
    const Shelf& shelf = lane->shelf(request.small);
    for (const auto* const index : {&shelf.ready, &shelf.draining}) {
      Block* const block = first_usable(*index, request.bytes, limit, usable);
      if (block != nullptr && (best == nullptr || fits_before(block, best))) best = block;
    }
  }
  return best;
}

// Whether a large piece of `lane` would be missed by its stream if another carved it.
bool CachingAllocator::State::kept_for_other(StreamId lane, const Request& request) const {
  return lane.valid() && lane != request.lane && device.ledger().is_open(lane);
}

std::size_t CachingAllocator::State::carve_limit(const Request& request) const {
  if (request.pressed) return kAny;
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
  const auto look = [&](const Run& candidate) {
    Block* first = nullptr;  // of the shortest run that ends at `block`
    std::size_t run = 0;
    std::size_t foreign = 0;  // blocks in the run that are kept for others
    Block* block = candidate.first;
    for (std::size_t i = 0; i < candidate.count; ++i, block = block->next) {
      ordering::count_steps(1);
      if (!usable(*block)) {
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
  };
  std::size_t looks = 0;
  runs.visit(request.small, request.bytes, [&](const Run& run) {
    look(run);
    return ++looks < kMostLooks;
  });
  return best;
}

Block* CachingAllocator::State::take_merged(const Request& request, std::size_t most) {
  Block* best = least_run(
      request, most, [&](const Block& block) { return shelves.ready(block, request.user.id()); });
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
    first->points.join(next->points);
    heap.absorb(first, next);
  }
}

// The newest marker that a request may wait for although its stream could still grow. What was last
// used before its previous burst began has had a whole burst's time: a batch's, where the stream is
// marked once a batch, so that waiting for it keeps nothing from running ahead by a batch.
std::uint64_t CachingAllocator::State::long_ago(const Request& request) {
  const Demand demand = demand_of(request.lane);
  const bool burst_begins = device.ledger().next(request.lane) != demand.marker;
  return burst_begins ? demand.began : demand.previous_began;
}

// A stream gets so much of its own that it need not wait: what it ever held, and some bursts more.
bool CachingAllocator::State::should_grow(const Request& request) {
  const Demand demand = demand_of(request.lane);
  if (demand.largest_burst == 0) return policy.spare_bursts > 0;
  Lane* const lane = shelves.find(request.lane);
  const std::size_t cached = lane == nullptr ? 0 : lane->shelf(request.small).bytes();
  const std::size_t kept = demand.live.current + request.bytes + cached;
  const double spare = policy.spare_bursts * static_cast<double>(demand.largest_burst);
  return static_cast<double>(kept) <= static_cast<double>(demand.live.peak) + spare;
}

// How early the user would be let go on: 0 if it has to wait for nothing.
std::optional<std::uint64_t> CachingAllocator::State::earliest_wait(const Block& block,
                                                                    StreamId user) const {
  std::uint64_t latest = 0;
  for (const Point point : block.points) {
    const auto when = device.earliest_wait(user, point);
    if (!when) return {};
    latest = std::max(latest, *when);
  }
  return latest;
}

// The block whose last missing marker was recorded earliest, and not after `newest`; among equals
// the best fit.
Block* CachingAllocator::State::take_waiting(const Request& request, std::uint64_t newest,
                                             Lock& lock) {
  using Rank = std::tuple<std::uint64_t, std::size_t, std::pair<std::size_t, std::byte*>>;
  Block* best = nullptr;
  Rank best_rank;
  const auto consider = [&](Block& block) {
    const auto when = earliest_wait(block, request.user.id());
    if (!when || *when > newest) return false;
    const Rank rank{*when, block.bytes, place_of(&block)};
    if (best == nullptr || rank < best_rank) {
      best = &block;
      best_rank = rank;
    }
    return false;  // and so on: the next may have been used earlier
  };
  for (Lane* const lane : shelves.waiting(kMostLooks)) {
    const std::size_t limit = kept_for_other(lane->stream, request) ? carve_limit(request) : kAny;
    const Shelf& shelf = lane->shelf(request.small);
    for (const auto* const index : {&shelf.ready, &shelf.draining}) {
      first_usable(*index, request.bytes, limit,
                   [&](const Block& block) { return consider(const_cast<Block&>(block)); });
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
  PointSet points;
  points.assign(block->points);
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
    const auto when = earliest_wait(block, request.user.id());
    return when && *when <= newest;
  };
  Block* best = least_run(request, kAny, reachable);
  if (best == nullptr) return nullptr;
  merge_until(best, request.bytes);
  if (!wait_for_block(request, best, lock)) return nullptr;
  ++meter.counts().served_waited;
  return best;
}

}  // namespace millrace
