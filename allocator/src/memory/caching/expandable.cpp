// PyTorch's expandable segments, as of PyTorch 2.14 (c10/cuda/CUDACachingAllocator.cpp). Memory is
// mapped page by page in ranges of addresses. Each pool of a stream has ranges of its own. As in
// PyTorch, addresses without memory are blocks (holes here).
//
// - A request takes the best fit, or the next larger block as long as that one can grow to fewer
//   bytes.
// - A request that no block fits takes the lowest addresses without memory that have room for it,
//   together with a free block before them and all free blocks in between.
// - Whole pages are mapped, and merge with their free neighbors.

#include "memory/caching/expandable.hpp"

#include <algorithm>

#include "millrace/round_up.hpp"
#include "ordering/steps.hpp"

namespace millrace {
namespace {

bool is_hole(const Block* block) { return block != nullptr && block->state == BlockState::absent; }

// Returns the bytes of addresses without memory directly after the block: up to the next block, or
// to the end of the range. Returns 0 for a block of an ordinary segment.
std::size_t room_after(const Block& block) {
  const Segment& range = *block.segment;
  if (!range.growable()) return 0;
  if (block.next == nullptr) return range.addresses - range.bytes;
  return is_hole(block.next) ? block.next->bytes : 0;
}

}  // namespace

bool Expandable::serves() const noexcept {
  return stock_.policy.expandable_segments && stock_.source.page_bytes() != 0;
}

Block* Expandable::least_growable(const Shelf& shelf, Block* best) {
  const auto could_be = [](const Block& block) { return block.bytes + room_after(block); };
  for (Block* next = shelf.ready.after(best); next != nullptr && could_be(*next) < could_be(*best);
       next = shelf.ready.after(next)) {
    ordering::count_steps(1);
    best = next;
  }
  return best;
}

// Returns the gap that begins at `hole`, or at the end of the range if `hole` is nullptr; nothing
// if blocks in use leave too little room. The gap has 0 bytes if the free block before it is large
// enough alone: `take_best_fit` refused that block by its rules for blocks that are not split.
std::optional<Expandable::Gap> Expandable::gap_at(const Request& request, Segment& range,
                                                  Block* hole) {
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

// Returns the gap at the lowest addresses in the ranges of the request's pool.
std::optional<Expandable::Gap> Expandable::find_gap(const Request& request) const {
  std::optional<Gap> best;
  const std::byte* lowest = nullptr;
  const auto consider = [&](Segment& range, Block* hole) {
    ordering::count_steps(1);
    const std::byte* const at = hole == nullptr ? range.base + range.bytes : hole->address;
    const bool is_pools = range.home == request.lane && range.small == request.small;
    if (!is_pools || (best && at > lowest)) return;
    const auto gap = gap_at(request, range, hole);
    if (!gap) return;
    best = gap;
    lowest = at;
  };
  const auto& holes = stock_.heap.holes();
  for (Block* hole = holes.first(1); hole != nullptr; hole = holes.after(hole)) {
    consider(*hole->segment, hole);
  }
  for (Segment* const range : stock_.heap.ranges()) consider(*range, nullptr);
  return best;
}

bool Expandable::add_range(const Request& request, Lock& lock) {
  const auto range = allowance_.addresses(lock);
  if (!range) {
    lacks_addresses_ = true;
    return false;
  }
  const std::size_t wanted =
      request.small ? stock_.policy.small_segment : stock_.policy.medium_segment;
  const std::size_t least = stock_.source.page_bytes();
  const std::size_t page = round_up(std::max(wanted, least), least);
  stock_.heap.add_range(range->base, range->bytes, request.lane, page, request.small);
  return true;
}

// Each pass fills one gap at most. The resulting block may still be too small, because the next
// hole can lie after free blocks.
Block* Expandable::grow(const Request& request, Lock& lock) {
  for (bool added = false;;) {
    auto gap = find_gap(request);
    if (!gap) {
      if (added || !add_range(request, lock)) return nullptr;
      added = true;
      continue;
    }
    if (gap->bytes == 0) {
      free_blocks_.claim(gap->first);
      return gap->first;
    }
    Block* const fresh = map(*gap, lock);
    if (fresh == nullptr) return nullptr;
    fresh->lane = request.lane;
    Block* const left = fresh->previous;
    Block* const whole = FreeBlocks::mergeable(left, request.lane) ? left : fresh;
    free_blocks_.put(fresh);
    if (whole->bytes < request.bytes) continue;
    free_blocks_.claim(whole);
    ++stock_.meter.counts().served_grown;
    return whole;
  }
}

// Maps memory in the gap. Returns it as a claimed block; nullptr if the device or the limit
// refused.
Block* Expandable::map(const Gap& gap, Lock& lock) {
  Block* const fresh = stock_.heap.fill(*gap.range, gap.hole, gap.bytes);
  bool mapped = false;
  try {
    mapped = allowance_.obtain(fresh->bytes, lock,
                               [&] { stock_.source.map(fresh->address, fresh->bytes); });
  } catch (...) {
    stock_.heap.vacate(fresh);
    throw;
  }
  if (!mapped) {
    stock_.heap.vacate(fresh);
    return nullptr;
  }
  fresh->state = BlockState::claimed;
  stock_.turns.current().reserved(fresh->bytes);
  reports_.acquired(fresh->address, fresh->bytes);
  return fresh;
}

}  // namespace millrace
