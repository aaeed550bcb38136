#include "observe/trace/torch/heap.hpp"

#include <algorithm>
#include <utility>

namespace millrace::trace {

namespace {

constexpr std::uint64_t kLargestRest = std::uint64_t{1} << 20;  // that stays with a large block

bool continues(const TorchSegment& first, const TorchSegment& second) {
  return first.expandable && second.expandable && first.stream == second.stream &&
         end_of(first) == second.address;
}

}  // namespace

std::uint64_t torch_large_block(const TorchSettings& settings, std::uint64_t rounded,
                                std::uint64_t room) {
  if (room <= rounded) return rounded;
  const bool keeps_rest = rounded >= settings.max_split_size || room - rounded <= kLargestRest;
  return keeps_rest ? room : rounded;
}

TorchHeap::Segments::iterator TorchHeap::segment_of(std::uint64_t address) {
  auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return segments_.end();
  --after;
  return address < end_of(after->second) ? after : segments_.end();
}

bool TorchHeap::overlaps_segment(std::uint64_t address, std::uint64_t bytes) {
  const auto next = segments_.lower_bound(address);
  if (next != segments_.end() && next->first < address + bytes) return true;
  return segment_of(address) != segments_.end();
}

TorchHeap::Blocks::iterator TorchHeap::first_touching(std::uint64_t address) {
  const auto block = blocks_.lower_bound(address);
  const bool before_reaches = block != blocks_.begin() && least_end(*std::prev(block)) > address;
  return before_reaches ? std::prev(block) : block;
}

std::uint64_t TorchHeap::least_end(const Blocks::value_type& block) const {
  const auto& [address, held] = block;
  return address + (held.bytes != 0 ? held.bytes : torch_rounded(held.requested, settings_));
}

std::uint64_t TorchHeap::room_end(const TorchSegment& segment, Blocks::iterator next) const {
  return next == blocks_.end() ? end_of(segment) : std::min(next->first, end_of(segment));
}

bool TorchHeap::may_keep_rest(const TorchSegment& segment) const {
  return segment.large && !segment.expandable && !settings_.expandable_segments;
}

std::uint64_t TorchHeap::block_bytes(const TorchSegment& segment, std::uint64_t rounded,
                                     std::uint64_t room) const {
  return may_keep_rest(segment) ? torch_large_block(settings_, rounded, room) : rounded;
}

void TorchHeap::insert(Segments::iterator segment, std::uint64_t address, Held held) {
  const auto next = blocks_.lower_bound(address);
  held.room_end = room_end(segment->second, next);
  if (next != blocks_.begin()) {
    Held& before = std::prev(next)->second;
    before.room_end = std::min(before.room_end, address);
  }
  blocks_.emplace_hint(next, address, std::move(held));
}

void TorchHeap::add_segment(TorchSegment segment) {
  const std::uint64_t address = segment.address;
  const auto placed = segments_.emplace(address, std::move(segment)).first;
  const auto next = std::next(placed);
  // A neighbor knows its pool; the new stretch had to guess.
  if (next != segments_.end() && continues(placed->second, next->second)) {
    placed->second.bytes += next->second.bytes;
    placed->second.large = next->second.large;
    placed->second.pool = next->second.pool;
    segments_.erase(next);
  }
  if (placed == segments_.begin()) return;
  const auto before = std::prev(placed);
  if (continues(before->second, placed->second)) {
    before->second.bytes += placed->second.bytes;
    segments_.erase(placed);
  }
}

void TorchHeap::cut(Segments::iterator segment, std::uint64_t address, std::uint64_t bytes) {
  TorchSegment behind = segment->second;
  behind.address = address + bytes;
  behind.bytes = end_of(segment->second) - behind.address;
  segment->second.bytes = address - segment->first;
  if (segment->second.bytes == 0) segments_.erase(segment);
  if (behind.bytes != 0) segments_.emplace(behind.address, std::move(behind));
}

TorchSegment TorchHeap::filled(const TorchSegment& segment) {
  TorchSegment result = segment;
  std::uint64_t at = segment.address;
  const auto add = [&](std::uint64_t end, const Held& held) {
    if (end > at)
      result.blocks.push_back({at, end - at, held.requested, held.state, held.stack, held.label});
    at = std::max(at, end);
  };
  const Held nothing{.state = BlockState::inactive};
  for (auto block = blocks_.lower_bound(segment.address);
       block != blocks_.end() && block->first < end_of(segment); ++block) {
    const auto& [address, held] = *block;
    add(address, nothing);
    const std::uint64_t rounded = torch_rounded(held.requested, settings_);
    std::uint64_t bytes = held.bytes;
    if (bytes == 0) bytes = block_bytes(segment, rounded, held.room_end - address);
    if (held.bytes == 0 && bytes == rounded)
      bytes += held.clues.least(address + rounded, kLargestRest);
    add(std::min(address + bytes, room_end(segment, std::next(block))), held);
  }
  add(end_of(segment), nothing);
  return result;
}

}  // namespace millrace::trace
