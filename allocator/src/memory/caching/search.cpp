#include "memory/caching/search.hpp"

#include <limits>

#include "ordering/steps.hpp"

namespace millrace {
namespace {

// Maximum number of runs, of lanes, and of blocks of a shelf that the host waits for before a
// request fails.
constexpr std::size_t kMostRunsAwaited = 64;

}  // namespace

Block* Search::find(const Request& request, Lock& lock, bool& left_out) {
  return stock_.lanes_mix ? find_of_any_lane(request, lock, left_out) : find_own(request, lock);
}

// Sharing::own_stream: PyTorch searches only the request's own lane.
Block* Search::find_own(const Request& request, Lock& lock) {
  Block* block = own_lane_.take_best_fit(request);
  if (block == nullptr) return nullptr;
  if (request.user.id() == request.owner.id()) return block;
  return waiting_.wait_for(request, block, lock) ? block : nullptr;
}

Block* Search::find_of_any_lane(const Request& request, Lock& lock, bool& left_out) {
  if (Block* block = find_for_nothing(request, lock, left_out)) return block;
  if ((request.small || !stock_.bins_are_pools) && stock_.with_small.any()) {
    upkeep_.empty_small();  // so far only blocks that may merge for the request
    if (Block* block = find_for_nothing(request, lock, left_out)) return block;
  }
  if (stock_.policy.sharing != Sharing::wait_before_grow) return nullptr;
  // A wait for memory that was used long ago is short. For other memory the stream waits only if it
  // has its share.
  const std::uint64_t old = waiting_.long_ago(request);
  if (Block* block = waiting_.take(request, old, lock)) return block;
  if (Block* block = merging_.take_waiting(request, old, lock)) return block;
  return waiting_.should_grow(request) ? nullptr
                                       : waiting_.take(request, OrderedDevice::kTail, lock);
}

Block* Search::find_all(const Request& request, Lock& lock) {
  bool left_out = false;
  Block* const block = find(request, lock, left_out);
  if (block != nullptr || !left_out) return block;
  completions_.poll(lock);
  return find(request, lock, left_out);
}

// Finds a block that needs no wait.
Block* Search::find_for_nothing(const Request& request, Lock& lock, bool& left_out) {
  if (Block* block = reuse_.take_ready(request)) return block;
  if (!completions_.poll_what_waits(lock)) left_out = true;
  if (Block* block = reuse_.take_ready(request)) return block;
  return merging_.take(request, reuse_.carve_limit(request));
}

Block* Search::find_any(const Request& request, Lock& lock) {
  constexpr auto kAny = std::numeric_limits<std::size_t>::max();
  Request from = request;
  from.pressed = true;
  upkeep_.empty();
  completions_.sweep();
  for (const bool small : {request.small, !request.small}) {
    from.small = small;
    if (Block* block = reuse_.take_ready(from)) return block;
    if (Block* block = merging_.take(from, kAny)) return block;
    if (!stock_.follows_order) continue;
    if (Block* block = waiting_.take(from, OrderedDevice::kTail, lock)) return block;
    if (Block* block = merging_.take_waiting(from, OrderedDevice::kTail, lock)) return block;
  }
  return nullptr;
}

Block* Search::find_complete(const Request& request) {
  if (!stock_.lanes_mix) return own_lane_.take_best_fit(request);
  if (Block* const block = reuse_.take_ready(request)) return block;
  return merging_.take(request, reuse_.carve_limit(request));
}

PointSet Search::points_of_runs(const Request& request) {
  PointSet result;
  std::size_t looks = 0;
  free_blocks_.list_all();
  stock_.runs.visit(request.small, request.bytes, [&](const Run& run) {
    const Block* block = run.first;
    for (std::size_t i = 0; i < run.count; ++i, block = block->next) {
      ordering::count_steps(1);
      result.join(block->points);
    }
    return ++looks < kMostRunsAwaited;
  });
  for (Lane* const lane : stock_.shelves.waiting(kMostRunsAwaited)) {
    const Shelf& shelf = lane->shelf(request.small);
    for (const auto* const index : {&shelf.ready, &shelf.draining}) {
      const Block* block = index->first(request.bytes);
      for (looks = 0; block != nullptr && looks < kMostRunsAwaited; ++looks) {
        ordering::count_steps(1);
        result.join(block->points);
        block = index->after(block);
      }
    }
  }
  return result;
}

}  // namespace millrace
