// What PyTorch counts of segments and blocks.

#include <algorithm>
#include <iterator>

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

// A live block has a free piece on either side, or none; where it is free, all of that is one
// piece.
void Book::count_in_segment(Blocks::const_iterator block, bool becomes_live) {
  const std::uintptr_t begin = block->first;
  const std::uintptr_t end = begin + block->second.bytes;
  const auto segment = segment_at(begin);
  if (segment == segments_.end()) return;
  Segment& in = segment->second;
  std::uintptr_t left = segment->first;
  std::uintptr_t right = segment->first + in.bytes;
  if (block != blocks_.begin()) {
    const auto before = std::prev(block);
    left = std::max(left, before->first + before->second.bytes);
  }
  if (const auto after = std::next(block); after != blocks_.end()) {
    right = std::min(right, after->first);
  }
  const std::size_t beside = std::size_t{left < begin} + std::size_t{end < right};
  const std::size_t as_free = left < right ? 1 : 0;
  Share change;
  change.add(in, -1);
  if (becomes_live) {
    in.gaps = in.live == 0 ? beside : in.gaps - as_free + beside;
    ++in.live;
    in.live_bytes += block->second.bytes;
  } else {
    --in.live;
    in.live_bytes -= block->second.bytes;
    in.gaps = in.live == 0 ? 0 : in.gaps - beside + as_free;
  }
  change.add(in, 1);
  count(in, change);
}

void Book::recount(Segments::iterator segment) {
  Segment& in = segment->second;
  in.live = in.live_bytes = in.gaps = 0;
  std::uintptr_t at = segment->first;
  const std::uintptr_t end = segment->first + in.bytes;
  for (auto block = blocks_.lower_bound(at); block != blocks_.end() && block->first < end;
       ++block) {
    in.gaps += at < block->first ? 1 : 0;
    at = block->first + block->second.bytes;
    ++in.live;
    in.live_bytes += block->second.bytes;
  }
  in.gaps += at < end ? 1 : 0;
}

// A freed block waits for nothing: what is active is what is allocated.
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
