#include <algorithm>
#include <utility>

#include "memory/caching_state.hpp"
#include "millrace/round_up.hpp"
#include "ordering/steps.hpp"

namespace millrace {
namespace {

// Ranges of one allocator: each takes twice the device's size of the process's addresses.
constexpr std::size_t kMostRanges = 16;

// Holes, or blocks in front of one, that a request looks at before it grows elsewhere.
constexpr std::size_t kMostHoles = 64;

std::size_t round_down(std::size_t bytes, std::size_t multiple) {
  return bytes / multiple * multiple;
}

}  // namespace

bool CachingAllocator::State::uses_ranges(const Request& request) const {
  return stock.policy.growable_ranges && !request.small && stock.source.page_bytes() != 0;
}

// In the stream's own range if that is to be had, else where there are addresses.
Block* CachingAllocator::State::grow_range(const Request& request, Lock& lock) {
  unmap_stale(stock.meter.bytes().reserved.current, lock);
  auto gap = find_gap(request, lock);
  if (gap && give_back_too_small(request, gap->bytes, lock)) gap = find_gap(request, lock);
  return gap ? map(request, *gap, lock) : nullptr;
}

// Addresses that pages were moved from, where work is complete, are unmapped as they are needed.
std::optional<CachingAllocator::State::Gap> CachingAllocator::State::find_gap(
    const Request& request, Lock& lock) {
  constexpr int kMostUnmapped = 4;
  for (int i = 0; i < kMostUnmapped; ++i) {
    const auto gap = find_gap_of(request, true, lock);
    const bool is_stale = gap && gap->hole != nullptr && gap->hole->state == BlockState::stale;
    if (!is_stale) return gap;
    if (!unmap_stale(gap->hole, gap->bytes, lock)) break;
  }
  return find_gap_of(request, false, lock);
}

std::optional<CachingAllocator::State::Gap> CachingAllocator::State::find_gap_of(
    const Request& request, bool stale_too, Lock& lock) {
  held.let_go();  // a gap may come after blocks that what is held would merge with
  auto gap = least_gap(request, request.lane, stale_too);
  if (gap) return gap;
  const bool added = add_range(request, lock);
  held.let_go();  // another thread may have freed one meanwhile
  if (added) gap = least_gap(request, request.lane, stale_too);
  return gap ? gap : least_gap(request, {}, stale_too);
}

// What a range lacks after `last`, which is its last block or the one before a hole. The stream
// must be able to use the blocks before the gap without a wait: it grows in order not to wait.
CachingAllocator::State::Gap CachingAllocator::State::gap_behind(Segment& range, Block* last,
                                                                 const Request& request) const {
  Gap gap{.range = &range};
  std::size_t in_front = 0, looks = 0;
  for (Block* block = last; block != nullptr && looks < kMostHoles; block = block->previous) {
    ordering::count_steps(1);
    const bool usable =
        block->state == BlockState::free && stock.shelves.ready(*block, request.user.id());
    // One that is large enough, and was not given, is kept for another stream.
    if (!usable || in_front + block->bytes >= request.bytes) break;
    in_front += block->bytes;
    gap.first = block;
    ++looks;
  }
  gap.bytes = round_up(request.bytes - in_front, stock.source.page_bytes());
  return gap;
}

// Where the least has to be mapped in the ranges of `home`; of any stream, if that is none.
std::optional<CachingAllocator::State::Gap> CachingAllocator::State::least_gap(
    const Request& request, StreamId home, bool stale_too) const {
  std::optional<Gap> best;
  std::size_t least = 0;  // bytes that the device maps or unmaps for `best`
  const auto consider = [&](Segment& range, Block* last, Block* hole, std::size_t room,
                            std::size_t changes) {
    if (home.valid() && range.home != home) return;
    Gap gap = gap_behind(range, last, request);
    gap.hole = hole;
    const std::size_t bytes = changes * gap.bytes;
    if (gap.bytes > room || (best && bytes >= least)) return;
    best = gap;
    least = bytes;
  };
  const auto& holes = stock.heap.holes();
  Block* hole = holes.first(holes.size() <= kMostHoles ? 1 : request.bytes);
  for (std::size_t looks = 0; hole != nullptr && looks < kMostHoles; ++looks) {
    consider(*hole->segment, hole->previous, hole, hole->bytes, 1);
    hole = holes.after(hole);
  }
  for (Segment* const range : stock.heap.ranges()) {
    consider(*range, range->last, nullptr, range->addresses - range->bytes, 1);
  }
  std::size_t looks = 0;
  for (auto left = stale.begin(); stale_too && left != stale.end() && looks < kMostHoles; ++left) {
    ++looks;
    if (!is_complete(**left)) continue;
    consider(*(*left)->segment, (*left)->previous, *left, (*left)->bytes, 2);
  }
  return best;
}

std::ptrdiff_t CachingAllocator::State::ranges_of(StreamId home) const {
  return std::ranges::count(stock.heap.ranges(), home, &Segment::home);
}

// A range for the stream of the request: that of a stream that is gone, or a new one. False if
// there are no addresses to be had, or if a range more would not help.
bool CachingAllocator::State::add_range(const Request& request, Lock& lock) {
  if (stock.capacity > 0 && request.bytes > stock.capacity) return false;
  for (const Segment* range : stock.heap.ranges()) {
    if (range->home == request.lane && range->first == nullptr) return false;
  }
  for (Segment* const range : stock.heap.ranges()) {
    if (stock.device.ledger().is_open(range->home)) continue;
    range->home = request.lane;
    return true;
  }
  if (stock.heap.ranges().size() >= kMostRanges || !range_refusals.due()) return false;
  const std::ptrdiff_t before = ranges_of(request.lane);
  AddressRange range;
  try {
    const Unlocked unlocked{lock};
    range = stock.source.reserve();
  } catch (const DeviceError& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    range_refusals.refused();
    return false;
  }
  range_refusals.granted();
  if (ranges_of(request.lane) == before) {
    stock.heap.add_range(range.base, range.bytes, request.lane);
  } else {  // another thread was faster
    const Unlocked unlocked{lock};
    stock.source.give_back(range);
  }
  return true;
}

// Moves pages to the gap, and maps new memory in the rest of it. The addresses, and the blocks
// before them, are claimed while the memory is being mapped: other threads grow after them. What
// was moved stays there if the rest is not to be had.
Block* CachingAllocator::State::map(const Request& request, const Gap& gap, Lock& lock) {
  Block* const fresh = stock.heap.fill(*gap.range, gap.hole, gap.bytes);
  Block* const first = gap.first == nullptr ? fresh : gap.first;
  for (Block* block = first; block != fresh; block = block->next) free_blocks.claim(block);
  Block* rest = fresh;  // null: nothing is missing
  const auto undo = [&] {
    for (Block* block = first; block != fresh;) free_blocks.put(std::exchange(block, block->next));
    stock.heap.vacate(rest);
    if (rest == fresh) return;
    fresh->lane = request.lane;  // which need not wait for the pages
    free_blocks.put(fresh);
  };
  bool mapped = false;
  try {
    rest = move_pages(gather_pages(request, gap.bytes), fresh, lock);
    mapped = rest == nullptr ||
             obtain(rest->bytes, lock, [&] { stock.source.map(rest->address, rest->bytes); });
    if (mapped && rest != nullptr) {
      rest->state = BlockState::claimed;
      stock.turns.current().reserved(rest->bytes);
      reports.acquired(rest->address, rest->bytes);
    }
  } catch (...) {
    undo();
    throw;
  }
  if (!mapped) {
    undo();
    return nullptr;
  }
  const Block* const last = rest == nullptr ? fresh : rest;
  for (bool whole = first == last; !whole;) {
    Block* const next = first->next;
    whole = next == last;
    first->points.join(next->points);
    stock.heap.absorb(first, next);
  }
  ++stock.meter.counts().served_grown;
  return first;
}

// Gives back up to `most` bytes, whole pages, of what is free in a range, the last ones first.
std::size_t CachingAllocator::State::unmap_free(Segment& range, std::size_t most, Lock& lock) {
  const auto is_free = [](const Block* block) {
    return block != nullptr && block->state == BlockState::free;
  };
  std::size_t released = 0;
  if (range.free_bytes < stock.source.page_bytes() || !range.may_have_free_page) return 0;
  range.may_have_free_page = false;  // what is put back sets it again
  for (Block* block = range.last; block != nullptr && released < most;) {
    ordering::count_steps(1);
    if (!is_free(block)) {
      block = block->previous;
      continue;
    }
    const std::byte* const end = block->address + block->bytes;
    while (is_free(block->previous)) block = block->previous;
    if (!has_page(range, block->address, end)) {
      block = block->previous;
      continue;
    }
    Block* before = nullptr;
    released += unmap_run(block, most - released, lock, before);
    block = before;
  }
  if (released >= most) range.may_have_free_page = true;
  return released;
}

// Whether the addresses of a range have a whole page in them.
bool CachingAllocator::State::has_page(const Segment& range, const std::byte* begin,
                                       const std::byte* end) const {
  const std::size_t page = stock.source.page_bytes();
  const auto from = static_cast<std::size_t>(begin - range.base);
  return round_up(from, page) + page <= static_cast<std::size_t>(end - range.base);
}

// Gives back up to `most` bytes of the free blocks from `block` on. `before`: where to go on.
std::size_t CachingAllocator::State::unmap_run(Block* block, std::size_t most, Lock& lock,
                                               Block*& before) {
  free_blocks.claim(block);
  while (block->next != nullptr && block->next->state == BlockState::free) {
    Block* const next = block->next;
    free_blocks.claim(next);
    block->points.join(next->points);
    stock.heap.absorb(block, next);
  }
  bool complete = completions.complete_on_host(block, lock);
  try {
    complete = complete && unmap_all_stale(lock);  // what is mapped elsewhere does not go back
  } catch (...) {
    free_blocks.put(block);
    throw;
  }
  before = block->previous;
  if (!complete) {
    free_blocks.put(block);
    return 0;
  }
  Block* const pages = keep_pages(block, most);
  if (pages == nullptr) return 0;
  const std::size_t bytes = pages->bytes;
  unmap(pages, lock);
  before = pages->previous;
  while (before != nullptr && !before->has_memory()) before = before->previous;
  stock.heap.vacate(pages);
  return bytes;
}

// Keeps the last whole pages of the claimed block, at most `most` bytes; the rest is free again.
Block* CachingAllocator::State::keep_pages(Block* block, std::size_t most) {
  const std::size_t page = stock.source.page_bytes();
  const auto offset = static_cast<std::size_t>(block->address - block->segment->base);
  const std::size_t end = round_down(offset + block->bytes, page);
  std::size_t begin = round_up(offset, page);
  if (end > begin && end - begin > most) begin = end - round_down(most, page);
  if (end <= begin) {
    free_blocks.put(block);
    return nullptr;
  }
  Block* pages = block;
  if (begin > offset) {
    pages = stock.heap.split(block, begin - offset);
    free_blocks.put(block);
  }
  if (pages->bytes > end - begin) free_blocks.put(stock.heap.split(pages, end - begin));
  return pages;
}

void CachingAllocator::State::unmap(Block* pages, Lock& lock) {
  try {
    const Unlocked unlocked{lock};
    stock.source.unmap(pages->address, pages->bytes);
  } catch (...) {
    free_blocks.put(pages);
    throw;
  }
  stock.turns.current().released(pages->bytes);
  reports.released(pages->address, pages->bytes);
}

// At the end, when no work uses it any more.
void CachingAllocator::State::release_range(const Segment& range) {
  const auto mapped = [](const Block* block) { return block != nullptr && block->has_memory(); };
  for (const Block* block = range.first; block != nullptr;) {
    std::byte* const begin = block->address;
    std::size_t bytes = 0;
    for (; mapped(block); block = block->next) bytes += block->bytes;
    if (bytes > 0) stock.source.unmap(begin, bytes);
    if (block == nullptr) break;
    if (block->state == BlockState::stale) stock.source.end_move(block->address, block->bytes);
    block = block->next;
  }
  stock.source.give_back({range.base, range.addresses});
}

}  // namespace millrace
