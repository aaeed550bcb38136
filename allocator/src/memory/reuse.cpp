// The order in which a request looks for a free block, and what the one rule gives it for nothing.

#include <utility>
#include <vector>

#include "memory/caching_state.hpp"
#include "memory/looks.hpp"
#include "ordering/steps.hpp"

namespace millrace {
namespace {

// PyTorch: an oversize request may be served by a block up to this much larger.
constexpr std::size_t kOversizeSlack = std::size_t{20} << 20;

}  // namespace

// The order in which a request looks for a free block before the allocator grows.
Block* CachingAllocator::State::search(const Request& request, Lock& lock, bool& left_out) {
  if (!stock.lanes_mix) {
    Block* block = take_own(request);
    if (block == nullptr) return nullptr;
    if (request.user.id() == request.owner.id()) return block;
    return wait_for_block(request, block, lock) ? block : nullptr;
  }
  if (Block* block = take_for_nothing(request, lock, left_out)) return block;
  if ((request.small || !stock.bins_are_pools) && stock.with_small.any()) {
    upkeep.empty_small();  // so far of what may merge into one for the request
    if (Block* block = take_for_nothing(request, lock, left_out)) return block;
  }
  if (stock.policy.sharing != Sharing::wait_before_grow) return nullptr;
  const std::uint64_t old = long_ago(request);
  if (Block* block = take_waiting(request, old, lock)) return block;
  if (Block* block = take_merged_waiting(request, old, lock)) return block;
  return should_grow(request) ? nullptr : take_waiting(request, OrderedDevice::kTail, lock);
}

Block* CachingAllocator::State::search_all(const Request& request, Lock& lock) {
  bool left_out = false;
  Block* const block = search(request, lock, left_out);
  if (block != nullptr || !left_out) return block;
  completions.poll(lock);
  return search(request, lock, left_out);
}

// Without a wait.
Block* CachingAllocator::State::take_for_nothing(const Request& request, Lock& lock,
                                                 bool& left_out) {
  if (Block* block = take_ready(request)) return block;
  if (!completions.poll_what_waits(lock)) left_out = true;
  if (Block* block = take_ready(request)) return block;
  return take_merged(request, carve_limit(request));
}

// PyTorch's best fit: the lane's smallest block that is large enough, then the lowest address.
Block* CachingAllocator::State::take_own(const Request& request) {
  held.let_go(request.lane);  // another thread or a callback may have freed one meanwhile
  Lane* const lane = stock.shelves.find(request.lane);
  if (lane == nullptr) return nullptr;
  Block* const block = lane->shelf(request.small).ready.first(request.bytes);
  if (block == nullptr) return nullptr;
  if (!request.small) {
    const bool oversize = request.bytes >= stock.policy.max_split;
    if (!oversize && block->bytes >= stock.policy.max_split) return nullptr;
    if (oversize && block->bytes >= request.bytes + kOversizeSlack) return nullptr;
  }
  free_blocks.claim(block);
  ++stock.meter.counts().served_own;
  return block;
}

// The first step of a search. What other fronts keep does not change it.
Block* CachingAllocator::State::take_ready_own(const Request& request) {
  if (!stock.lanes_mix) {
    return request.user.id() == request.owner.id() ? take_own(request) : nullptr;
  }
  Lane* const lane = stock.shelves.find(request.lane);
  if (lane == nullptr) return nullptr;
  Block* const block = lane->shelf(request.small).ready.first(request.bytes);
  if (block == nullptr) return nullptr;
  free_blocks.claim(block);
  ++stock.meter.counts().served_own;
  return block;
}

Block* CachingAllocator::State::take_ready(const Request& request) {
  if (Block* const block = take_ready_own(request)) return block;
  free_blocks.settle();
  Block* best = least_complete(request);
  if (stock.follows_order) {
    Block* const ordered = least_ordered(request);
    if (best == nullptr || (ordered != nullptr && fits_before(ordered, best))) best = ordered;
  }
  if (best == nullptr)
    best = stock.shelves.nobodys().shelf(request.small).ready.first(request.bytes);
  if (best == nullptr) return nullptr;
  free_blocks.claim(best);
  ++stock.meter.counts().served_ordered;
  return best;
}

// The best fit of other lanes that the device has finished with.
Block* CachingAllocator::State::least_complete(const Request& request) {
  const std::size_t limit = carve_limit(request);
  return first_usable(
      stock.shelves.complete(request.small), request.bytes, kAnySize,
      [&](const Block& b) { return b.bytes <= limit || !kept_for_other(b.lane, request); });
}

// The best fit of other lanes that the user is ordered after although it is not complete.
Block* CachingAllocator::State::least_ordered(const Request& request) {
  if (!stock.shelves.any_waits()) return nullptr;
  const StreamId user = request.user.id();
  std::vector<StreamId> before;
  for (const Point point : stock.device.ledger().frontier(user)) before.push_back(point.stream);
  ordering::count_steps(before.size());
  Block* best = nullptr;
  const auto usable = [&](const Block& block) { return stock.shelves.ready(block, user); };
  for (Lane* const lane :
       stock.shelves.waiting_for(before, stock.shelves.find(request.lane), kMostCandidates)) {
    const std::size_t limit =
        kept_for_other(lane->stream, request) ? carve_limit(request) : kAnySize;
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
  return lane.valid() && lane != request.lane && stock.device.ledger().is_open(lane);
}

std::size_t CachingAllocator::State::carve_limit(const Request& request) const {
  if (request.pressed) return kAnySize;
  return static_cast<std::size_t>(static_cast<double>(request.bytes) * stock.policy.carve_limit);
}

}  // namespace millrace
