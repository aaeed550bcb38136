#include "memory/caching/giving_back.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "ordering/steps.hpp"

namespace millrace {
namespace {

// A request starts on no other segment once it has inspected this many wholly free segments and
// blocks of them.
constexpr std::size_t kMostSegmentLooks = 64;

}  // namespace

// The segment leaves the heap before the call, because the driver may give its address to another
// thread at once.
void GivingBack::release(Block* whole, Lock& lock) {
  std::unique_ptr<Segment> segment = stock_.heap.extract(whole->segment);
  std::byte* const base = segment->base;
  const std::size_t bytes = segment->bytes;
  reports_.released(base, bytes);
  try {
    const Unlocked unlocked{lock};
    stock_.source.release(base, bytes);
  } catch (...) {
    stock_.heap.insert(std::move(segment));
    reports_.acquired(base, bytes);
    free_blocks_.put(whole);
    throw;
  }
  stock_.heap.forget(std::move(segment));
  stock_.turns.current().released(bytes);
}

std::size_t GivingBack::release_free_memory(std::size_t keep_bytes, std::size_t enough,
                                            Lock& lock) {
  const GivingOrder::Turn mine = turn(lock);
  held_.shelve();
  upkeep_.empty();
  free_blocks_.list_all();  // this notes which ranges may have free pages
  std::size_t released = release_free_segments(keep_bytes, enough, false, lock);
  // Ranges with memory that the user reserved come last, directly after the reserved segments.
  std::vector<Segment*> ranges = stock_.heap.ranges();
  const auto kept = std::ranges::stable_partition(ranges, [](auto* range) { return !range->kept; });
  const Segment* const first_kept = kept.empty() ? nullptr : kept.front();
  for (Segment* range : ranges) {
    if (range == first_kept && released < enough) {
      released += release_free_segments(keep_bytes, enough - released, true, lock);
    }
    const std::size_t page = range->page;
    const std::size_t reserved = stock_.meter.bytes().reserved.current;
    if (released >= enough || reserved <= keep_bytes) break;
    const std::size_t wanted = std::min(enough - released, reserved);
    const std::size_t most = std::min((reserved - keep_bytes) / page, (wanted + page - 1) / page);
    released += range_pages_.unmap_free(*range, most * page, lock);
    if (range->first == nullptr) range->kept = false;
  }
  if (first_kept == nullptr && released < enough) {
    released += release_free_segments(keep_bytes, enough - released, true, lock);
  }
  range_pages_.give_back_empty(lock);
  return released;
}

// `kept`: releases the segments that the user reserved, otherwise the others. Like PyTorch,
// Sharing::own_stream does not stop at `enough`.
std::size_t GivingBack::release_free_segments(std::size_t keep_bytes, std::size_t enough, bool kept,
                                              Lock& lock) {
  completions_.await(completions_.pending().points(), lock);
  held_.shelve();
  std::size_t released = 0;
  std::vector<std::pair<std::size_t, std::byte*>> places;  // by number, then by address
  for (const bool small : {false, true}) {
    const Segment* segment = stock_.shelves.free_segments().first(small);
    for (; segment != nullptr; segment = segment->free_behind) {
      ordering::count_steps(1);
      if (segment->kept == kept) places.emplace_back(segment->number, segment->base);
    }
  }
  std::ranges::sort(places);
  for (const auto& [number, base] : places) {
    if (stock_.lanes_mix && released >= enough) break;
    const auto it = stock_.heap.segments().find(base);  // may be gone: the lock was dropped
    if (it == stock_.heap.segments().end()) continue;
    const std::size_t bytes = it->second->bytes;
    const std::size_t reserved = stock_.meter.bytes().reserved.current;
    if (reserved < bytes || reserved - bytes < keep_bytes) continue;
    if (release_if_free(base, lock)) released += bytes;
  }
  return released;
}

bool GivingBack::release_if_free(std::byte* base, Lock& lock) {
  const GivingOrder::Turn mine = turn(lock);
  const auto it = stock_.heap.segments().find(base);
  if (it == stock_.heap.segments().end()) return false;
  if (it->second->growable()) return release_range_if_free(*it->second, lock);
  if (!it->second->wholly_free()) return false;
  Block* whole = it->second->first;
  free_blocks_.merge_until(whole, it->second->bytes);
  if (!completions_.complete_on_host(whole, lock)) {
    free_blocks_.put(whole);
    return false;
  }
  release(whole, lock);
  return true;
}

bool GivingBack::release_range_if_free(Segment& range, Lock& lock) {
  for (const Block* block = range.first; block != nullptr; block = block->next) {
    if (block->state == BlockState::filling) return false;
    if (block->has_memory() && block->state != BlockState::free) return false;
  }
  return range.first != nullptr && range_pages_.unmap_free(range, range.bytes, lock) > 0;
}

// Returns the large segment of one free block that has been free for longest; not one that the user
// reserved. Restored segments that were not used since have equal ages: the first of them in order
// is returned.
const Segment* GivingBack::oldest_free_segment() const {
  const Segment* oldest = nullptr;
  const Segment* segment = stock_.shelves.free_segments().first(false);
  for (; segment != nullptr; segment = segment->free_behind) {
    ordering::count_steps(1);
    if (oldest != nullptr && segment->age > oldest->age) break;
    if (segment->kept || segment->first->bytes != segment->bytes) continue;
    const auto place = [](const Segment& of) { return std::pair{of.number, of.base}; };
    if (oldest == nullptr || place(*segment) < place(*oldest)) oldest = segment;
  }
  return oldest;
}

void GivingBack::collect_old_segments(const Request& request, Lock& lock) {
  if (stock_.policy.collect_threshold <= 0 || stock_.policy.collect_threshold >= 1 ||
      allowance_.limit() == 0)
    return;
  const auto threshold = static_cast<std::size_t>(stock_.policy.collect_threshold *
                                                  static_cast<double>(allowance_.limit()));
  const GivingOrder::Turn mine{order_, std::try_to_lock};
  while (mine.has() && stock_.meter.bytes().reserved.current + request.bytes > threshold) {
    held_.shelve();  // another thread may have freed a block while the lock was dropped
    const Segment* oldest = oldest_free_segment();
    if (oldest == nullptr) return;
    Block* whole = oldest->first;
    free_blocks_.claim(whole);
    if (!completions_.complete_on_host(whole, lock)) {
      free_blocks_.put(whole);
      return;
    }
    release(whole, lock);
  }
}

bool GivingBack::give_back_too_small(const Request& request, std::size_t most, Lock& lock) {
  if (!stock_.saves_segments || stock_.shelves.free_segments().first(false) == nullptr)
    return false;
  const GivingOrder::Turn mine{order_, std::try_to_lock};
  if (!mine.has()) return false;
  free_blocks_.settle();
  bool tried = false;
  std::size_t given = 0;
  while (given < most) {
    const Segment* const segment = largest_complete_below(std::min(request.bytes, most - given));
    if (segment == nullptr) break;
    if (!give_back_patience_.lasts(stock_.meter.bytes().reserved.current)) break;
    const std::size_t bytes = segment->bytes;
    tried = true;
    try {
      if (!release_if_free(segment->base, lock)) break;
    } catch (const DeviceError&) {  // the segment is still free
      break;
    }
    give_back_patience_.moved(bytes);
    given += bytes;
  }
  return tried;
}

// Returns the largest wholly free segment of fewer than `bytes` whose uses are complete, so that
// the host does not wait; nullptr if none. Leaves out segments that the user reserved.
const Segment* GivingBack::largest_complete_below(std::size_t bytes) const {
  const Segment* largest = nullptr;
  std::size_t looks = 0;
  const auto complete = [&](const Segment& segment) {
    const Block* block = segment.first;
    std::size_t blocks = 0;
    for (; block != nullptr && block->waits == BlockWaits::nothing; block = block->next) {
      if (++blocks > kMostSegmentLooks) return false;
    }
    looks += blocks;
    return block == nullptr;
  };
  const Segment* segment = stock_.shelves.free_segments().first(false);
  for (; segment != nullptr && looks < kMostSegmentLooks; segment = segment->free_behind, ++looks) {
    const bool larger = largest == nullptr || segment->bytes > largest->bytes;
    const bool serves = !segment->kept && segment->bytes < bytes && larger;
    if (serves && complete(*segment)) largest = segment;
  }
  ordering::count_steps(looks);
  return largest;
}

}  // namespace millrace
