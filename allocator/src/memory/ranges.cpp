#include <algorithm>
#include <utility>

#include "memory/caching_state.hpp"

namespace millrace {
namespace {

// Of one allocator: each takes twice the device's size of the process's addresses.
constexpr std::size_t kMostRanges = 16;

std::size_t round_down(std::size_t bytes, std::size_t multiple) {
  return bytes / multiple * multiple;
}

std::size_t round_up(std::size_t bytes, std::size_t multiple) {
  return round_down(bytes + multiple - 1, multiple);
}

}  // namespace

bool CachingAllocator::State::uses_ranges(const Request& request) const {
  return policy.growable_ranges && !request.small && source.page_bytes() != 0;
}

// In the stream's own range if that is to be had, else where there are addresses.
Block* CachingAllocator::State::grow_range(const Request& request, Lock& lock) {
  auto gap = least_gap(request, request.lane);
  if (!gap && add_range(request, lock)) gap = least_gap(request, request.lane);
  if (!gap) gap = least_gap(request, {});
  return gap ? map(*gap, lock) : nullptr;
}

// Where the least has to be mapped in the ranges of `home`; of any stream, if that is none. What is
// in front of it must be the user's for nothing: a stream that grows does so in order not to wait.
std::optional<CachingAllocator::State::Gap> CachingAllocator::State::least_gap(
    const Request& request, StreamId home) const {
  std::optional<Gap> best;
  const auto consider = [&](Gap gap, std::size_t in_front, std::size_t room) {
    gap.bytes = round_up(request.bytes - in_front, source.page_bytes());
    if (gap.bytes <= room && (!best || gap.bytes < best->bytes)) best = gap;
  };
  for (Segment* const range : heap.ranges()) {
    if (home.valid() && range->home != home) continue;
    Block* first = nullptr;
    std::size_t run = 0;
    for (Block* block = range->first; block != nullptr; block = block->next) {
      if (block->state == BlockState::absent) {
        consider({.range = range, .first = first, .hole = block}, run, block->bytes);
      }
      if (block->state != BlockState::free || !ready(*block, request.user.id())) {
        first = nullptr;
        run = 0;
        continue;
      }
      if (first == nullptr) first = block;
      run += block->bytes;
      while (run >= request.bytes) {  // large enough, and not given: kept for another stream
        run -= first->bytes;
        first = first->next;
      }
      if (run == 0) first = nullptr;
    }
    consider({.range = range, .first = first}, run, range->addresses - range->bytes);
  }
  return best;
}

std::ptrdiff_t CachingAllocator::State::ranges_of(StreamId home) const {
  return std::ranges::count(heap.ranges(), home, &Segment::home);
}

// A range for the stream of the request: that of a stream that is gone, or a new one. False if
// there are no addresses to be had, or if a range more would not help.
bool CachingAllocator::State::add_range(const Request& request, Lock& lock) {
  if (capacity > 0 && request.bytes > capacity) return false;
  for (const Segment* range : heap.ranges()) {
    if (range->home == request.lane && range->first == nullptr) return false;
  }
  for (Segment* const range : heap.ranges()) {
    if (device.ledger().is_open(range->home)) continue;
    range->home = request.lane;
    return true;
  }
  if (heap.ranges().size() >= kMostRanges) return false;
  const std::ptrdiff_t before = ranges_of(request.lane);
  AddressRange range;
  try {
    const Unlocked unlocked{lock};
    range = source.reserve();
  } catch (const DeviceError& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    return false;
  }
  if (ranges_of(request.lane) == before) {
    heap.add_range(range.base, range.bytes, request.lane);
  } else {  // another thread was faster
    const Unlocked unlocked{lock};
    source.give_back(range);
  }
  return true;
}

// The addresses, and the blocks in front of them, are claimed while the memory is being mapped:
// other threads grow behind them.
Block* CachingAllocator::State::map(const Gap& gap, Lock& lock) {
  Block* const fresh = heap.fill(*gap.range, gap.hole, gap.bytes);
  Block* const first = gap.first == nullptr ? fresh : gap.first;
  for (Block* block = first; block != fresh; block = block->next) claim(block);
  const auto undo = [&] {
    for (Block* block = first; block != fresh;) put_free(std::exchange(block, block->next));
    heap.vacate(fresh);
  };
  bool mapped = false;
  try {
    mapped = obtain(gap.bytes, lock, [&] { source.map(fresh->address, gap.bytes); });
  } catch (...) {
    undo();
    throw;
  }
  if (!mapped) {
    undo();
    return nullptr;
  }
  meter.reserved(gap.bytes);
  if (observer != nullptr) observer->segment_acquired(fresh->address, gap.bytes);
  for (bool whole = first == fresh; !whole;) {
    Block* const next = first->next;
    whole = next == fresh;
    join_points(first->points, next->points);
    heap.absorb(first, next);
  }
  ++meter.counts().served_grown;
  return first;
}

// Gives back up to `most` bytes, whole pages, of what is free in a range, the last ones first.
std::size_t CachingAllocator::State::unmap_free(Segment& range, std::size_t most, Lock& lock) {
  const auto is_free = [](const Block* block) {
    return block != nullptr && block->state == BlockState::free;
  };
  std::size_t released = 0;
  for (Block* block = range.last; block != nullptr && released < most;) {
    if (!is_free(block)) {
      block = block->previous;
      continue;
    }
    while (is_free(block->previous)) block = block->previous;
    claim(block);
    while (is_free(block->next)) {
      Block* const next = block->next;
      claim(next);
      join_points(block->points, next->points);
      heap.absorb(block, next);
    }
    const bool complete = complete_on_host(block, lock);
    Block* before = block->previous;
    if (!complete) {
      put_free(block);
    } else if (Block* const pages = keep_pages(block, most - released)) {
      const std::size_t bytes = pages->bytes;
      unmap(pages, lock);
      before = pages->previous;
      while (before != nullptr && before->state == BlockState::absent) before = before->previous;
      heap.vacate(pages);
      released += bytes;
    }
    block = before;
  }
  return released;
}

// The last whole pages of the claimed block, at most so many bytes; the rest of it is free again.
Block* CachingAllocator::State::keep_pages(Block* block, std::size_t most) {
  const std::size_t page = source.page_bytes();
  const auto offset = static_cast<std::size_t>(block->address - block->segment->base);
  const std::size_t end = round_down(offset + block->bytes, page);
  std::size_t begin = round_up(offset, page);
  if (end > begin && end - begin > most) begin = end - round_down(most, page);
  if (end <= begin) {
    put_free(block);
    return nullptr;
  }
  Block* pages = block;
  if (begin > offset) {
    pages = heap.split(block, begin - offset);
    put_free(block);
  }
  if (pages->bytes > end - begin) put_free(heap.split(pages, end - begin));
  return pages;
}

void CachingAllocator::State::unmap(Block* pages, Lock& lock) {
  try {
    const Unlocked unlocked{lock};
    source.unmap(pages->address, pages->bytes);
  } catch (...) {
    put_free(pages);
    throw;
  }
  meter.released(pages->bytes);
  if (observer != nullptr) observer->segment_released(pages->address, pages->bytes);
}

// At the end, when nobody uses it any more.
void CachingAllocator::State::release_range(const Segment& range) {
  const auto mapped = [](const Block* block) {
    return block != nullptr && block->state != BlockState::absent;
  };
  for (const Block* block = range.first; block != nullptr;) {
    const std::byte* const begin = block->address;
    std::size_t bytes = 0;
    for (; mapped(block); block = block->next) bytes += block->bytes;
    if (bytes > 0) source.unmap(const_cast<std::byte*>(begin), bytes);
    if (block != nullptr) block = block->next;
  }
  source.give_back({range.base, range.addresses});
}

}  // namespace millrace
