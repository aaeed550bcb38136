// PyTorch's expandable segments: memory is mapped page by page in address ranges, of which each
// pool of a stream has its own. As of 2.14 (c10/cuda/CUDACachingAllocator.cpp), where what has no
// memory is a block of its own too:
//
// - of the free blocks that fit, the best is the one with the least room to grow behind it;
// - a request that none fits takes the lowest addresses without memory that have room for it, with
//   a free block before them and whatever free blocks lie between;
// - what is mapped is whole pages, and becomes one with its free neighbors.

#include <algorithm>
#include <optional>
#include <vector>

#include "memory/caching_state.hpp"
#include "millrace/round_up.hpp"
#include "ordering/steps.hpp"

namespace millrace {
namespace {

bool is_hole(const Block* block) { return block != nullptr && block->state == BlockState::absent; }

// Addresses without memory right after the block, to the next block or the end of the range.
std::size_t room_after(const Block& block) {
  const Segment& range = *block.segment;
  if (!range.growable()) return 0;
  if (block.next == nullptr) return range.addresses - range.bytes;
  return is_hole(block.next) ? block.next->bytes : 0;
}

}  // namespace

// Starts with the best fit, and goes on while the next larger one could grow less.
Block* CachingAllocator::State::least_expandable(const Shelf& shelf, Block* best) const {
  const auto could_be = [](const Block& block) { return block.bytes + room_after(block); };
  for (Block* next = shelf.ready.after(best); next != nullptr && could_be(*next) < could_be(*best);
       next = shelf.ready.after(next)) {
    ordering::count_steps(1);
    best = next;
  }
  return best;
}

// Where memory is missing: `hole`, or for none the end of the range. None if blocks in use leave
// too little room. No bytes are missing if the free block in front of the gap serves, which the
// rules of `take_own` for blocks that are not split kept from the request.
std::optional<CachingAllocator::State::Gap> CachingAllocator::State::expandable_gap(
    const Request& request, Segment& range, Block* hole) const {
  Block* const left = hole == nullptr ? range.last : hole->previous;
  const bool extends = left != nullptr && left->state == BlockState::free;
  const std::size_t before = extends ? left->bytes : 0;
  const std::size_t here = hole == nullptr ? range.addresses - range.bytes : hole->bytes;
  std::size_t room = before + here;
  const Block* block = hole == nullptr ? nullptr : hole->next;
  for (; room < request.bytes && block != nullptr; block = block->next) {
    ordering::count_steps(1);
    if (block->state != BlockState::free && !is_hole(block)) return {};
    room += block->bytes;
  }
  const bool to_the_end = hole != nullptr && block == nullptr;
  if (to_the_end) room += range.addresses - range.bytes;
  if (room < request.bytes || room == before) return {};
  const std::size_t missing = request.bytes - std::min(before, request.bytes);
  return Gap{.range = &range,
             .first = extends ? left : nullptr,
             .hole = hole,
             .bytes = std::min(round_up(missing, range.page), here)};
}

// The one at the lowest addresses, in the ranges of the request's pool.
std::optional<CachingAllocator::State::Gap> CachingAllocator::State::find_expandable_gap(
    const Request& request) const {
  std::vector<Segment*> ranges;
  for (Segment* const range : heap.ranges()) {
    if (range->home == request.lane && range->small == request.small) ranges.push_back(range);
  }
  std::ranges::sort(ranges, {}, &Segment::base);
  std::vector<Block*> holes;
  for (Block* hole = heap.holes().first(1); hole != nullptr; hole = heap.holes().after(hole)) {
    ordering::count_steps(1);
    holes.push_back(hole);
  }
  std::ranges::sort(holes, {}, &Block::address);
  for (Segment* const range : ranges) {
    for (Block* const hole : holes) {
      if (hole->segment != range) continue;
      if (const auto gap = expandable_gap(request, *range, hole)) return gap;
    }
    if (const auto gap = expandable_gap(request, *range, nullptr)) return gap;
  }
  return {};
}

bool CachingAllocator::State::add_expandable_range(const Request& request, Lock& lock) {
  AddressRange range;
  try {
    const Unlocked unlocked{lock};
    range = source.reserve();
  } catch (const DeviceError& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    return false;
  }
  const std::size_t wanted = request.small ? policy.small_segment : policy.medium_segment;
  const std::size_t page = round_up(wanted, source.page_bytes());
  heap.add_range(range.base, range.bytes, request.lane, page, request.small);
  return true;
}

// Maps until a block serves. What was mapped before the device refuses more stays, as free blocks.
Block* CachingAllocator::State::grow_expandable(const Request& request, Lock& lock) {
  for (bool added = false;;) {
    auto gap = find_expandable_gap(request);
    if (!gap) {
      if (added || !add_expandable_range(request, lock)) return nullptr;
      added = true;
      continue;
    }
    if (gap->bytes == 0) {
      claim(gap->first);
      return gap->first;
    }
    Block* const fresh = map_page_run(*gap, lock);
    if (fresh == nullptr) return nullptr;
    fresh->lane = request.lane;
    Block* const left = fresh->previous;
    Block* const whole = mergeable(left, request.lane) ? left : fresh;
    put_free(fresh);
    if (whole->bytes < request.bytes) continue;
    claim(whole);
    ++meter.counts().served_grown;
    return whole;
  }
}

// A claimed block with memory in the place of the gap; nullptr: the device has none.
Block* CachingAllocator::State::map_page_run(const Gap& gap, Lock& lock) {
  Block* const fresh = heap.fill(*gap.range, gap.hole, gap.bytes);
  bool mapped = false;
  try {
    mapped = obtain(fresh->bytes, lock, [&] { source.map(fresh->address, fresh->bytes); });
  } catch (...) {
    heap.vacate(fresh);
    throw;
  }
  if (!mapped) {
    heap.vacate(fresh);
    return nullptr;
  }
  fresh->state = BlockState::claimed;
  turns.current().reserved(fresh->bytes);
  if (observer != nullptr) observer->segment_acquired(fresh->address, fresh->bytes);
  return fresh;
}

// PyTorch gives back the addresses of a range in which nothing is mapped any more.
void CachingAllocator::State::give_back_empty_ranges(Lock& lock) {
  if (!policy.expandable_segments) return;
  std::vector<AddressRange> empty;
  for (Segment* const range : std::vector<Segment*>{heap.ranges()}) {
    if (range->first != nullptr) continue;
    empty.push_back({range->base, range->addresses});
    heap.remove_range(*range);
  }
  if (empty.empty()) return;
  const Unlocked unlocked{lock};
  for (const AddressRange& range : empty) source.give_back(range);
}

// Claims the free blocks that are just these pages, cut out of larger ones.
std::vector<Block*> CachingAllocator::State::claim_pages(std::span<const AddressRange> pages) {
  std::vector<Block*> claimed;
  const auto begins_before = [](const AddressRange& some, const std::byte* address) {
    return static_cast<const std::byte*>(some.base) < address;
  };
  for (Segment* const range : heap.ranges()) {
    auto wanted = pages.begin();
    for (Block* block = range->first; block != nullptr; block = block->next) {
      ordering::count_steps(1);
      wanted = std::lower_bound(wanted, pages.end(), block->address, begins_before);
      if (wanted == pages.end()) break;
      auto* const begin = static_cast<std::byte*>(wanted->base);
      const std::byte* const end = block->address + block->bytes;
      if (block->state != BlockState::free || begin + wanted->bytes > end) continue;
      claim(block);
      Block* middle = block;
      if (begin > block->address) {
        middle = heap.split(block, static_cast<std::size_t>(begin - block->address));
        put_free(block);
      }
      if (middle->bytes > wanted->bytes) put_free(heap.split(middle, wanted->bytes));
      claimed.push_back(middle);
      block = middle;
    }
  }
  return claimed;
}

std::size_t CachingAllocator::State::unmap_pages(std::span<const AddressRange> pages, Lock& lock) {
  const std::vector<Block*> claimed = claim_pages(pages);
  std::size_t released = 0;
  auto left = claimed.begin();
  try {
    while (left != claimed.end()) {
      Block* const block = *left++;
      if (!complete_on_host(block, lock)) {
        put_free(block);
        continue;
      }
      unmap(block, lock);
      released += block->bytes;
      heap.vacate(block);
    }
  } catch (...) {  // the block itself is free again
    while (left != claimed.end()) put_free(*left++);
    throw;
  }
  give_back_empty_ranges(lock);
  return released;
}

}  // namespace millrace
