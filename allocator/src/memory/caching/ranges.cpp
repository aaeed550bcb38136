#include "memory/caching/ranges.hpp"

#include <algorithm>
#include <utility>

#include "millrace/round_up.hpp"
#include "ordering/steps.hpp"

namespace millrace {
namespace {

// Maximum number of ranges of one allocator. Each takes twice the size of the device from the
// addresses of the process.
constexpr std::size_t kMostRanges = 16;

// Maximum number of holes, of stale blocks, and of blocks before a gap, that a request inspects
// before it grows elsewhere.
constexpr std::size_t kMostHoles = 64;

}  // namespace

bool Ranges::serve(const Request& request) const {
  return stock_.policy.growable_ranges && !request.small && stock_.source.page_bytes() != 0;
}

Block* Ranges::grow(const Request& request, Lock& lock) {
  stale_.unmap_until(stock_.meter.bytes().reserved.current, lock);
  auto gap = find_gap(request, lock);
  if (gap && giving_back_.give_back_too_small(request, gap->bytes, lock))
    gap = find_gap(request, lock);
  return gap ? map(request, *gap, lock) : nullptr;
}

// Old addresses of moved pages are unmapped when a request needs them, if all work on them is
// complete.
std::optional<Ranges::Gap> Ranges::find_gap(const Request& request, Lock& lock) {
  constexpr int kMostUnmapped = 4;
  for (int i = 0; i < kMostUnmapped; ++i) {
    const auto gap = find_gap_of(request, true, lock);
    const bool is_stale = gap && gap->hole != nullptr && gap->hole->state == BlockState::stale;
    if (!is_stale) return gap;
    if (!stale_.unmap(gap->hole, gap->bytes, lock)) break;
  }
  return find_gap_of(request, false, lock);
}

std::optional<Ranges::Gap> Ranges::find_gap_of(const Request& request, bool stale_too, Lock& lock) {
  held_.shelve();  // a held block may merge with blocks before a gap
  auto gap = least_gap(request, request.lane, stale_too);
  if (gap) return gap;
  const bool added = add_range(request, lock);
  held_.shelve();  // another thread may have freed a block meanwhile
  if (added) gap = least_gap(request, request.lane, stale_too);
  return gap ? gap : least_gap(request, {}, stale_too);
}

// Returns the gap after `last`, which is the range's last block or the block before a hole. Free
// blocks before the gap count only if the user need not wait for them: it grows in order not to
// wait.
Ranges::Gap Ranges::gap_behind(Segment& range, Block* last, const Request& request) const {
  Gap gap{.range = &range};
  std::size_t in_front = 0, looks = 0;
  for (Block* block = last; block != nullptr && looks < kMostHoles; block = block->previous) {
    ordering::count_steps(1);
    const bool usable =
        block->state == BlockState::free && stock_.shelves.ready(*block, request.user.id());
    // Blocks that are large enough, but did not serve, are kept for another stream.
    if (!usable || in_front + block->bytes >= request.bytes) break;
    in_front += block->bytes;
    gap.first = block;
    ++looks;
  }
  gap.bytes = round_up(request.bytes - in_front, stock_.source.page_bytes());
  return gap;
}

// Returns the gap with the fewest bytes to map, in the ranges of `home`, or of any stream if `home`
// is none.
std::optional<Ranges::Gap> Ranges::least_gap(const Request& request, StreamId home,
                                             bool stale_too) const {
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
  const auto& holes = stock_.heap.holes();
  // Of many holes, only those that are large enough alone are inspected.
  Block* hole = holes.first(holes.size() <= kMostHoles ? 1 : request.bytes);
  for (std::size_t looks = 0; hole != nullptr && looks < kMostHoles; ++looks) {
    consider(*hole->segment, hole->previous, hole, hole->bytes, 1);
    hole = holes.after(hole);
  }
  for (Segment* const range : stock_.heap.ranges()) {
    consider(*range, range->last, nullptr, range->addresses - range->bytes, 1);
  }
  std::size_t looks = 0;
  for (auto left = stale_.blocks().begin();
       stale_too && left != stale_.blocks().end() && looks < kMostHoles; ++left) {
    ++looks;
    if (!stale_.is_complete(**left)) continue;
    // Counted twice, because these pages are unmapped first.
    consider(*(*left)->segment, (*left)->previous, *left, (*left)->bytes, 2);
  }
  return best;
}

std::ptrdiff_t Ranges::ranges_of(StreamId home) const {
  return std::ranges::count(stock_.heap.ranges(), home, &Segment::home);
}

// Gives the request's stream a range: the range of a destroyed stream, or a new one. Returns false
// if the source has no addresses, or if another range would not help.
bool Ranges::add_range(const Request& request, Lock& lock) {
  if (stock_.capacity > 0 && request.bytes > stock_.capacity) return false;
  for (const Segment* range : stock_.heap.ranges()) {
    if (range->home == request.lane && range->first == nullptr) return false;
  }
  for (Segment* const range : stock_.heap.ranges()) {
    if (stock_.device.ledger().is_open(range->home)) continue;
    range->home = request.lane;
    return true;
  }
  if (stock_.heap.ranges().size() >= kMostRanges || !range_refusals_.due()) return false;
  const std::ptrdiff_t before = ranges_of(request.lane);
  const auto range = allowance_.addresses(lock);
  if (!range) {
    range_refusals_.refused();
    return false;
  }
  range_refusals_.granted();
  if (ranges_of(request.lane) == before) {
    stock_.heap.add_range(range->base, range->bytes, request.lane, stock_.source.page_bytes());
  } else {  // another thread added a range meanwhile
    const Unlocked unlocked{lock};
    stock_.source.give_back(*range);
  }
  return true;
}

// Moves pages to the gap, and maps new memory in the rest of it. The gap and the free blocks before
// it are claimed during the calls, so other threads grow after them. Moved pages stay in the gap if
// the rest cannot be mapped.
Block* Ranges::map(const Request& request, const Gap& gap, Lock& lock) {
  Block* const fresh = stock_.heap.fill(*gap.range, gap.hole, gap.bytes);
  Block* const first = gap.first == nullptr ? fresh : gap.first;
  for (Block* block = first; block != fresh; block = block->next) free_blocks_.claim(block);
  Block* rest = fresh;  // nullptr: nothing is missing
  const auto undo = [&] {
    for (Block* block = first; block != fresh;) free_blocks_.put(std::exchange(block, block->next));
    stock_.heap.vacate(rest);
    if (rest == fresh) return;
    fresh->lane = request.lane;  // its stream need not wait for the moved pages
    free_blocks_.put(fresh);
  };
  bool mapped = false;
  try {
    rest = moved_pages_.move(moved_pages_.gather(request, gap.bytes), fresh, lock);
    mapped = rest == nullptr || allowance_.obtain(rest->bytes, lock, [&] {
      stock_.source.map(rest->address, rest->bytes);
    });
    if (mapped && rest != nullptr) {
      rest->state = BlockState::claimed;
      stock_.turns.current().reserved(rest->bytes);
      reports_.acquired(rest->address, rest->bytes);
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
    stock_.heap.absorb(first, next);
  }
  ++stock_.meter.counts().served_grown;
  return first;
}

}  // namespace millrace
