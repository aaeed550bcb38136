// Starts an allocator in the middle of a trace, with the memory that another one had.

#include "memory/caching/restoring.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <vector>

namespace millrace {
namespace {

using SegmentLayout = CachingAllocator::SegmentLayout;
using RangeLayout = CachingAllocator::RangeLayout;

void require_tiled(const SegmentLayout& segment) {
  std::size_t at = 0;
  for (const CachingAllocator::BlockLayout& block : segment.blocks) {
    if (block.offset != at || block.bytes == 0) break;
    at += block.bytes;
  }
  if (at == segment.bytes && at != 0) return;
  throw std::invalid_argument{"restore: blocks do not tile their segment"};
}

std::byte* begin_of(const SegmentLayout& segment) { return static_cast<std::byte*>(segment.base); }

// Returns the index of the range of a segment: the range with the last base before it. Ranges have
// more addresses than memory, so the last addresses of a range may be those of another. Returns the
// number of ranges if the segment is in none.
std::size_t range_of(const SegmentLayout& segment, std::span<const RangeLayout> ranges) {
  std::size_t best = ranges.size();
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    auto* const base = static_cast<std::byte*>(ranges[i].base);
    const bool holds = begin_of(segment) >= base && begin_of(segment) < base + ranges[i].bytes;
    if (holds && (best == ranges.size() || base > ranges[best].base)) best = i;
  }
  return best;
}

}  // namespace

// Makes the segment's blocks of the claimed block `rest`, from its first address on.
void Restoring::restore_blocks(const SegmentLayout& segment, Block* rest) {
  const StreamRef stream = stock_.device.resolve(segment.stream);
  rest->lane = stream.id();
  stock_.turns.current().reserved(segment.bytes);
  reports_.acquired(segment.base, segment.bytes);
  for (const CachingAllocator::BlockLayout& wanted : segment.blocks) {
    Block* const block = rest;
    if (wanted.bytes < block->bytes) rest = stock_.heap.split(block, wanted.bytes);
    if (!wanted.allocated) {
      free_blocks_.shelve(block);
      continue;
    }
    block->state = BlockState::live;
    const Marker next = stock_.device.ledger().next(stream.id());
    block->live = {wanted.requested, stream, LiveUses{next}, stock_.new_id()};
    block->spare = 0;
    block->tag = {};
    stock_.heap.live().insert(block);
    const Request request{{wanted.requested, wanted.bytes, stream, {}, next},
                          segment.small,
                          stream,
                          stream.id(),
                          next};
    upkeep_.count_out(*block, request);
    reports_.allocated(*block, stream.id());
  }
}

// `inside`: the range's segments, in address order.
void Restoring::restore_range(const RangeLayout& range,
                              std::span<const SegmentLayout* const> inside) {
  Segment& made = stock_.heap.add_range(
      range.base, range.bytes, stock_.device.resolve(range.stream).id(), range.page, range.small);
  for (const SegmentLayout* const segment : inside) {
    const auto offset = static_cast<std::size_t>(begin_of(*segment) - made.base);
    // A hole lies between blocks, so it is vacated after the block that follows it was added.
    Block* const hole =
        offset > made.bytes ? stock_.heap.fill(made, nullptr, offset - made.bytes) : nullptr;
    Block* const block = stock_.heap.fill(made, nullptr, segment->bytes);
    if (hole != nullptr) stock_.heap.vacate(hole);
    block->state = BlockState::claimed;
    restore_blocks(*segment, block);
  }
}

void Restoring::restore(std::span<const SegmentLayout> segments,
                        std::span<const RangeLayout> ranges) {
  if (!stock_.heap.segments().empty()) {
    throw std::logic_error{"restore: the allocator holds memory already"};
  }
  std::vector<std::vector<const SegmentLayout*>> inside(ranges.size());
  std::vector<const SegmentLayout*> apart;
  for (const SegmentLayout& segment : segments) {
    require_tiled(segment);
    if (!segment.in_range) {
      apart.push_back(&segment);
      continue;
    }
    const std::size_t range = range_of(segment, ranges);
    if (range == ranges.size()) {
      throw std::invalid_argument{"restore: a segment is in no range"};
    }
    inside[range].push_back(&segment);
  }
  std::set<void*> bases;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].page == 0 || !bases.insert(ranges[i].base).second) {
      throw std::invalid_argument{"restore: a range has no pages, or begins where another does"};
    }
    std::ranges::sort(inside[i], {}, [](const auto* segment) { return begin_of(*segment); });
    std::size_t end = 0;
    for (const SegmentLayout* const segment : inside[i]) {
      const auto offset =
          static_cast<std::size_t>(begin_of(*segment) - static_cast<std::byte*>(ranges[i].base));
      const bool whole_pages = offset % ranges[i].page == 0 && segment->bytes % ranges[i].page == 0;
      if (offset < end || segment->bytes > ranges[i].bytes - offset || !whole_pages) {
        throw std::invalid_argument{"restore: a segment is not whole pages of its range"};
      }
      end = offset + segment->bytes;
    }
  }
  for (const SegmentLayout* const segment : apart) {
    restore_blocks(*segment,
                   stock_.heap.add_segment(segment->base, segment->bytes, segment->small));
  }
  for (std::size_t i = 0; i < ranges.size(); ++i) restore_range(ranges[i], inside[i]);
}

}  // namespace millrace
