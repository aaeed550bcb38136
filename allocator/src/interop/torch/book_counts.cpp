// PyTorch's counters of segments and blocks.

#include <algorithm>

#include "interop/torch/book.hpp"

namespace millrace {

void TorchStat::add(std::int64_t amount) noexcept {
  current += amount;
  peak = std::max(peak, current);
  (amount > 0 ? allocated : freed) += amount > 0 ? amount : -amount;
}

void TorchStats::add(bool is_small, std::int64_t amount) noexcept {
  if (amount == 0) return;
  all.add(amount);
  (is_small ? small : large).add(amount);
}

namespace torch {

void Book::Share::add(const Segment& segment, std::int64_t sign) noexcept {
  segments += sign;
  bytes += sign * static_cast<std::int64_t>(segment.bytes);
  if (segment.live == 0) return;
  gaps += sign * static_cast<std::int64_t>(segment.gaps);
  unused += sign * static_cast<std::int64_t>(segment.bytes - segment.live_bytes);
}

void Book::count(const Segment& kind, const Share& change) {
  counted_.segment.add(kind.small, change.segments);
  counted_.reserved_bytes.add(kind.small, change.bytes);
  counted_.inactive_split.add(kind.small, change.gaps);
  counted_.inactive_split_bytes.add(kind.small, change.unused);
  if (kind.pool == TorchPoolId{} || change.bytes == 0) return;
  counted_.reserved_by_pool[kind.pool].add(kind.small, change.bytes);
}

void Book::count_block(const Live& live, std::int64_t sign) {
  const auto bytes = static_cast<std::int64_t>(live.bytes);
  counted_.allocation.add(live.small, sign);
  counted_.allocated_bytes.add(live.small, sign * bytes);
  counted_.requested_bytes.add(live.small, sign * static_cast<std::int64_t>(live.requested));
  if (live.bytes >= max_split_) counted_.oversize_allocations.add(sign);
}

// Returns the number of free pieces that are adjacent to these addresses.
std::size_t Book::gaps_beside(Segments::const_iterator segment, const std::byte* begin,
                              const std::byte* end) const {
  const bool before = begin != segment->first && !blocks_.any_ends(begin);
  const bool after = end != segment->first + segment->second.bytes && !blocks_.any_begins(end);
  return std::size_t{before} + std::size_t{after};
}

// Finds the segment of a block. It is usually the segment of the last block of the same kind.
Book::Segments::iterator Book::segment_of_block(const LiveBlocks::Block& block) {
  Segments::iterator& last = lately_[block.live->small ? 1 : 0];
  const bool inside = last != segments_.end() && last->first <= block.begin &&
                      block.end <= last->first + last->second.bytes;
  if (!inside) last = segment_at(block.begin);
  return last;
}

// A block that becomes free forms one piece together with the adjacent free pieces.
void Book::count_in_segment(const LiveBlocks::Block& block, bool becomes_live) {
  const auto segment = segment_of_block(block);
  if (segment == segments_.end()) return;
  const std::size_t beside = gaps_beside(segment, block.begin, block.end);
  Segment& in = segment->second;
  Share change;
  change.add(in, -1);
  if (becomes_live) {
    in.gaps = in.gaps - 1 + beside;
    ++in.live;
    in.live_bytes += block.live->bytes;
  } else {
    in.gaps = in.gaps + 1 - beside;
    --in.live;
    in.live_bytes -= block.live->bytes;
  }
  change.add(in, 1);
  count(in, change);
}

// Adds `right` to `left`, which ends at the boundary.
void Book::join(Segment& left, const Segment& right, const std::byte* boundary) const {
  const bool both_free = !blocks_.any_ends(boundary) && !blocks_.any_begins(boundary);
  left.bytes += right.bytes;
  left.live += right.live;
  left.live_bytes += right.live_bytes;
  left.gaps += right.gaps - std::size_t{both_free};
}

// Counts the blocks of a segment from the start.
void Book::count_blocks(Segment& segment, const std::byte* begin) const {
  segment.live = segment.live_bytes = segment.gaps = 0;
  if (segment.bytes == 0) return;
  const std::byte* at = begin;
  const std::byte* const end = begin + segment.bytes;
  blocks_.visit(begin, end, [&](const LiveBlocks::Block& block) {
    segment.gaps += at < block.begin ? 1 : 0;
    at = block.end;
    ++segment.live;
    segment.live_bytes += block.live->bytes;
  });
  segment.gaps += at < end ? 1 : 0;
}

// Subtracts `other` from a segment. Together they had `gaps` free pieces.
void Book::take_away(Segment& segment, const Segment& other, std::size_t gaps) {
  segment.live -= other.live;
  segment.live_bytes -= other.live_bytes;
  segment.gaps = gaps - other.gaps;
}

// Freed blocks wait for nothing here, so the active bytes are the allocated bytes.
TorchStatistics Book::statistics() const {
  const std::lock_guard lock{mutex_};
  TorchStatistics all = counted_;
  all.active = all.allocation;
  all.active_bytes = all.allocated_bytes;
  return all;
}

namespace {

template <typename Each>
void for_each_stat(TorchStatistics& all, const Each& each) {
  for (TorchStats* stats :
       {&all.allocation, &all.segment, &all.active, &all.inactive_split, &all.allocated_bytes,
        &all.reserved_bytes, &all.active_bytes, &all.inactive_split_bytes, &all.requested_bytes}) {
    for (TorchStat* stat : {&stats->all, &stats->small, &stats->large}) each(*stat);
  }
  for (auto& [pool, stats] : all.reserved_by_pool) {
    for (TorchStat* stat : {&stats.all, &stats.small, &stats.large}) each(*stat);
  }
  each(all.oversize_allocations);
  each(all.oversize_segments);
}

}  // namespace

void Book::reset_peaks() {
  const std::lock_guard lock{mutex_};
  for_each_stat(counted_, [](TorchStat& stat) { stat.peak = stat.current; });
}

void Book::reset_sums() {
  const std::lock_guard lock{mutex_};
  for_each_stat(counted_, [](TorchStat& stat) { stat.allocated = stat.freed = 0; });
  counted_.out_of_memory = counted_.sync_all_streams = 0;
  counted_.device_allocs = counted_.device_frees = 0;
  std::erase_if(counted_.reserved_by_pool,
                [](const auto& of_pool) { return of_pool.second.all.current == 0; });
}

}  // namespace torch
}  // namespace millrace
