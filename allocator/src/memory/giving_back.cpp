// Memory that goes back to the device.

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "memory/caching_state.hpp"
#include "ordering/steps.hpp"

namespace millrace {
namespace {

// Blocks of wholly free segments that a request looks at.
constexpr std::size_t kMostSegmentLooks = 64;

}  // namespace

// Forgotten first: the driver may give the address to another thread at once.
void CachingAllocator::State::release(Block* whole, Lock& lock) {
  std::unique_ptr<Segment> segment = stock.heap.extract(whole->segment);
  std::byte* const base = segment->base;
  const std::size_t bytes = segment->bytes;
  reports.released(base, bytes);
  try {
    const Unlocked unlocked{lock};
    stock.source.release(base, bytes);
  } catch (...) {
    stock.heap.insert(std::move(segment));
    reports.acquired(base, bytes);
    free_blocks.put(whole);
    throw;
  }
  stock.heap.forget(std::move(segment));
  stock.turns.current().released(bytes);
}

// Segments that are wholly free, and of ranges what is free, until that is `enough`; what was
// reserved by the user last.
std::size_t CachingAllocator::State::release_free_memory(std::size_t keep_bytes, std::size_t enough,
                                                         Lock& lock) {
  held.let_go();
  upkeep.empty();
  free_blocks.list_all();  // so that the ranges know of their free pages
  std::size_t released = release_free_segments(keep_bytes, false, lock);
  std::vector<Segment*> ranges = stock.heap.ranges();
  const auto kept = std::ranges::stable_partition(ranges, [](auto* range) { return !range->kept; });
  const Segment* const first_kept = kept.empty() ? nullptr : kept.front();
  for (Segment* range : ranges) {
    if (range == first_kept && released < enough) {
      released += release_free_segments(keep_bytes, true, lock);
    }
    const std::size_t page = stock.source.page_bytes();
    const std::size_t reserved = stock.meter.bytes().reserved.current;
    if (released >= enough || reserved <= keep_bytes) break;
    const std::size_t wanted = std::min(enough - released, reserved);
    const std::size_t most = std::min((reserved - keep_bytes) / page, (wanted + page - 1) / page);
    released += unmap_free(*range, most * page, lock);
    if (range->first == nullptr) range->kept = false;
  }
  if (first_kept == nullptr && released < enough) {
    released += release_free_segments(keep_bytes, true, lock);
  }
  return released;
}

// Releases those that the user reserved, if `kept`, otherwise the others.
std::size_t CachingAllocator::State::release_free_segments(std::size_t keep_bytes, bool kept,
                                                           Lock& lock) {
  completions.await(completions.pending().points(), lock);
  held.let_go();
  std::size_t released = 0;
  std::vector<std::pair<std::size_t, std::byte*>> places;  // as they came, or by address
  for (const bool small : {false, true}) {
    const Segment* segment = stock.shelves.free_segments().first(small);
    for (; segment != nullptr; segment = segment->free_behind) {
      ordering::count_steps(1);
      if (segment->kept == kept) places.emplace_back(segment->number, segment->base);
    }
  }
  std::ranges::sort(places);
  for (const auto& [number, base] : places) {
    const auto it = stock.heap.segments().find(base);  // the lock was dropped in between
    if (it == stock.heap.segments().end()) continue;
    const std::size_t bytes = it->second->bytes;
    if (stock.meter.bytes().reserved.current < keep_bytes + bytes) continue;
    if (release_if_free(base, lock)) released += bytes;
  }
  return released;
}

bool CachingAllocator::State::release_if_free(std::byte* base, Lock& lock) {
  const auto it = stock.heap.segments().find(base);
  if (it == stock.heap.segments().end()) return false;
  if (it->second->growable()) return release_range_if_free(*it->second, lock);
  if (!it->second->wholly_free()) return false;
  Block* whole = it->second->first;
  free_blocks.merge_until(whole, it->second->bytes);
  if (!completions.complete_on_host(whole, lock)) {
    free_blocks.put(whole);
    return false;
  }
  release(whole, lock);
  return true;
}

bool CachingAllocator::State::release_range_if_free(Segment& range, Lock& lock) {
  for (const Block* block = range.first; block != nullptr; block = block->next) {
    if (block->state == BlockState::filling) return false;
    if (block->has_memory() && block->state != BlockState::free) return false;
  }
  return range.first != nullptr && unmap_free(range, range.bytes, lock) > 0;
}

// Points of the segment's blocks. Live blocks are freed now.
PointSet CachingAllocator::State::points_of(const Segment& segment) const {
  PointSet points;
  for (const Block* block = segment.first; block != nullptr; block = block->next) {
    if (block->state == BlockState::absent) continue;
    points.join(block->points);
    if (block->state != BlockState::live) continue;
    Few<StreamRef> used;
    points.join(freeing.points_of_free(*block, block->live.owner, false, used));
  }
  return points;
}

// Their launches are known to the device alone.
bool CachingAllocator::State::used_by_graphs(const Segment& segment) const {
  for (const Block* block = segment.first; block != nullptr; block = block->next) {
    if (block->state == BlockState::live && graphs.may_use(block->address)) return true;
  }
  return false;
}

bool CachingAllocator::State::await_all(const Segment& segment, Lock& lock) {
  const PointSet points = points_of(segment);
  return points.empty() || completions.await(points, lock);
}

// As the allocator goes. While a stream is captured the device cannot be synchronized as a whole:
// a segment then stays reserved if the host cannot wait for all that used it.
void CachingAllocator::State::release_everything() {
  Lock lock = enter();
  upkeep.empty();
  bool is_idle = true;
  try {
    stock.device.synchronize();
  } catch (const DeviceError& error) {
    if (error.code() != ErrorCode::capture) throw;
    is_idle = false;
  }
  for (const auto& [base, segment] : stock.heap.segments()) {
    if (!is_idle && (used_by_graphs(*segment) || !await_all(*segment, lock))) continue;
    if (segment->growable()) {
      release_range(*segment);
    } else {
      stock.source.release(base, segment->bytes);
    }
  }
}

bool CachingAllocator::release_segment(void* base) {
  state_->graphs.tidy();
  Lock lock = state_->enter();
  state_->upkeep.empty();
  state_->completions.sweep();  // what is known to be complete is free
  state_->free_blocks.list_all();
  return state_->release_if_free(static_cast<std::byte*>(base), lock);
}

// Large, and one block. Of those that were restored, and never used since, the first one.
const Segment* CachingAllocator::State::oldest_free_segment() const {
  const Segment* oldest = nullptr;
  const Segment* segment = stock.shelves.free_segments().first(false);
  for (; segment != nullptr; segment = segment->free_behind) {
    ordering::count_steps(1);
    if (oldest != nullptr && segment->age > oldest->age) break;
    if (segment->kept || segment->first->bytes != segment->bytes) continue;
    const auto place = [](const Segment& of) { return std::pair{of.number, of.base}; };
    if (oldest == nullptr || place(*segment) < place(*oldest)) oldest = segment;
  }
  return oldest;
}

// PyTorch's garbage collection: idle segments, oldest first, until reserved is below the threshold.
void CachingAllocator::State::collect_old_segments(const Request& request, Lock& lock) {
  if (stock.policy.collect_threshold <= 0 || stock.policy.collect_threshold >= 1 ||
      limits.limit == 0)
    return;
  const auto threshold =
      static_cast<std::size_t>(stock.policy.collect_threshold * static_cast<double>(limits.limit));
  while (stock.meter.bytes().reserved.current + request.bytes > threshold) {
    held.let_go();  // another thread may have freed one while a segment was released
    const Segment* oldest = oldest_free_segment();
    if (oldest == nullptr) return;
    Block* whole = oldest->first;
    free_blocks.claim(whole);
    if (!completions.complete_on_host(whole, lock)) {
      free_blocks.put(whole);
      return;
    }
    release(whole, lock);
  }
}

std::size_t CachingAllocator::trim(std::size_t keep_bytes) {
  state_->graphs.tidy();
  Lock lock = state_->enter();
  state_->upkeep.forget_demands();  // what streams needed so far says nothing of what comes
  constexpr auto kAll = std::numeric_limits<std::size_t>::max();
  return state_->release_free_memory(keep_bytes, kAll, lock);
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
