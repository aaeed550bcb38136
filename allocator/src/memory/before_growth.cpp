#include <algorithm>

#include "memory/caching_state.hpp"
#include "memory/looks.hpp"
#include "ordering/steps.hpp"

namespace millrace {
namespace {

// Streams that are marked for one request.
constexpr std::size_t kMostMarked = 16;

// Blocks of wholly free segments that a request looks at.
constexpr std::size_t kMostSegmentLooks = 64;

}  // namespace

// What can be had with less than new memory. A marker costs a small part of what growing does, and
// shows what the device has finished with where the program records none.
Block* CachingAllocator::State::instead_of_growing(const Request& request, Lock& lock,
                                                   bool left_out) {
  if (!stock.policy.before_growing) return nullptr;
  const bool marked = mark_what_waits(lock);
  if (marked || left_out) {
    completions.poll(lock);
    if (Block* block = take_ready(request)) return block;
    if (Block* block = take_merged(request, carve_limit(request))) return block;
  }
  return take_from_idle(request);
}

// The best fit of complete blocks, however much larger than the request, of streams that have
// nothing live: such a stream waits for another phase of the program, as where streams take turns.
Block* CachingAllocator::State::take_from_idle(const Request& request) {
  free_blocks.settle();
  Block* const block = first_usable(
      stock.shelves.complete(request.small), request.bytes, kAnySize,
      [&](const Block& found) { return upkeep.demand_of(found.lane).live.current == 0; });
  if (block == nullptr) return nullptr;
  free_blocks.claim(block);
  ++stock.meter.counts().served_ordered;
  return block;
}

// Sees to it that the newest uses of free blocks are covered by markers. False if all were.
bool CachingAllocator::State::mark_what_waits(Lock& lock) {
  PointSet uncovered = stock.shelves.newest_points(kMostMarked);
  const Ledger& ledger = stock.device.ledger();
  uncovered.erase_if([&](const Point point) {
    return ledger.completed(point) || ledger.earliest_covering(point).has_value();
  });
  if (uncovered.empty()) return false;
  PointSet marked;
  lock.unlock();
  for (const Point point : uncovered) {
    try {
      if (const auto marker = stock.device.cover(point)) marked.push_back(*marker);
    } catch (const DeviceError&) {  // then this request grows
    }
  }
  lock.lock();
  for (const Point marker : marked) upkeep.continue_burst(marker);
  return !marked.empty();
}

// Wholly free segments that are too small for the request, up to `most` bytes of them: what then
// grows is so much less. Segments cannot be moved as pages are, so that this is their way. Returns
// whether it tried: the lock may have been dropped then.
bool CachingAllocator::State::give_back_too_small(const Request& request, std::size_t most,
                                                  Lock& lock) {
  if (!stock.saves_segments || stock.shelves.free_segments().first(false) == nullptr) return false;
  free_blocks.settle();
  bool tried = false;
  std::size_t given = 0;
  while (given < most) {
    const Segment* const segment = largest_complete_below(std::min(request.bytes, most - given));
    if (segment == nullptr) break;
    if (!give_back_patience.lasts(stock.meter.bytes().reserved.current)) break;
    const std::size_t bytes = segment->bytes;
    tried = true;
    try {
      if (!release_if_free(segment->base, lock)) break;
    } catch (const DeviceError&) {  // it is free still
      break;
    }
    give_back_patience.moved(bytes);
    given += bytes;
  }
  return tried;
}

// Of those that are complete: the host would not have to wait for their uses.
const Segment* CachingAllocator::State::largest_complete_below(std::size_t bytes) const {
  const Segment* largest = nullptr;
  std::size_t looks = 0;
  const auto complete = [&](const Segment& segment) {
    const Block* block = segment.first;
    for (; block != nullptr && block->waits == BlockWaits::nothing; block = block->next) ++looks;
    return block == nullptr;
  };
  const Segment* segment = stock.shelves.free_segments().first(false);
  for (; segment != nullptr && looks < kMostSegmentLooks; segment = segment->free_behind, ++looks) {
    const bool larger = largest == nullptr || segment->bytes > largest->bytes;
    const bool serves = !segment->kept && segment->bytes < bytes && larger;
    if (serves && complete(*segment)) largest = segment;
  }
  ordering::count_steps(looks);
  return largest;
}

}  // namespace millrace
