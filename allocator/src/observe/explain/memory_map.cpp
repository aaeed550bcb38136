#include "observe/explain/memory_map.hpp"

#include <algorithm>
#include <iterator>

#include "observe/trace/torch/heap.hpp"

namespace millrace {

namespace {

using trace::EventKind;

constexpr std::uint64_t kSmallSegment = std::uint64_t{2} << 20;

}  // namespace

MemoryMap::MemoryMap(const trace::AllocationLog& log, const DeviceLog& device,
                     const BlockTimes& times, ExplainedStreams& streams,
                     std::vector<std::uint64_t>& ends)
    : log_(log), times_(times), streams_(streams), ends_(ends) {
  ends_.resize(log.blocks.size());
  if (device.device < log.initial.size()) {
    for (const trace::TorchSegment& segment : log.initial[device.device].segments) {
      add_segment(segment.address, {.end = segment.address + segment.bytes,
                                    .stream = streams_.find(device.device, segment.stream),
                                    .pool = segment.pool,
                                    .pool_known = true,
                                    .large = segment.large,
                                    .expandable = segment.expandable});
    }
  }
  for (const std::uint32_t block : device.start_blocks) {
    hold(block, log.blocks[block].freed_before_start);
  }
}

void MemoryMap::apply(const trace::LogEvent& event) {
  switch (event.kind) {
    case EventKind::allocate:
      return hold(event.block, false);
    case EventKind::free_requested: {
      const auto held = find(event.block);
      if (held == blocks_.end() || held->second.waits) return;
      if (times_.completed(event.block) == times_.freed(event.block)) {
        drop(held);
        return;
      }
      live_ -= log_.blocks[event.block].bytes;
      held->second.waits = true;
      return;
    }
    case EventKind::free_completed: {
      const auto held = find(event.block);
      if (held != blocks_.end()) drop(held);
      return;
    }
    case EventKind::segment_alloc:
    case EventKind::segment_map:
      if (!has_place(log_, event)) {
        unplaced_ += event.bytes;
        reserved_ += event.bytes;
        return;
      }
      return add_segment(event.address, {.end = event.address + event.bytes,
                                         .stream = event.stream,
                                         .large = event.bytes > kSmallSegment,
                                         .expandable = event.kind == EventKind::segment_map});
    case EventKind::segment_free:
    case EventKind::segment_unmap:
      if (!has_place(log_, event)) return remove_unplaced(event.bytes);
      return remove_segments(event.address, event.address + event.bytes);
    case EventKind::out_of_memory:
      return;
  }
}

bool MemoryMap::may_be_unplaced(std::uint64_t address, const Held& held) const {
  if (log_.streams[log_.blocks[held.block].stream].for_all) return false;
  const auto after = segments_.lower_bound(address + 1);
  const bool begins_in_one = after != segments_.begin() && std::prev(after)->second.end > address;
  return !begins_in_one && (after == segments_.end() || after->first >= held.end);
}

std::uint64_t MemoryMap::page_bytes(const Segment& segment) const {
  if (!segment.large) return kSmallSegment;
  return log_.snapshot ? std::max<std::uint64_t>(log_.snapshot->settings.large_segment_size, 1)
                       : std::uint64_t{20} << 20;
}

void MemoryMap::add_segment(std::uint64_t address, const Segment& segment) {
  if (segment.end <= address) return;
  remove_segments(address, segment.end);
  segments_[address] = segment;
  reserved_ += segment.end - address;
}

void MemoryMap::remove_segments(std::uint64_t from, std::uint64_t to) {
  split_segment(from);
  split_segment(to);
  const auto first = segments_.lower_bound(from), last = segments_.lower_bound(to);
  for (auto it = first; it != last; ++it) reserved_ -= it->second.end - it->first;
  segments_.erase(first, last);
}

// Removes all reserved memory, as a reset of the device does.
void MemoryMap::remove_unplaced(std::uint64_t bytes) {
  if (bytes >= reserved_) {
    segments_.clear();
    for (auto at = blocks_.begin(); at != blocks_.end();)
      at = at->second.waits ? drop(at) : std::next(at);
    reserved_ = unplaced_ = 0;
    return;
  }
  const std::uint64_t gone = std::min(bytes, unplaced_);
  unplaced_ -= gone;
  reserved_ -= gone;
}

void MemoryMap::split_segment(std::uint64_t at) {
  const auto after = segments_.lower_bound(at);
  if (after == segments_.begin()) return;
  Segment& segment = std::prev(after)->second;
  if (segment.end <= at) return;
  segments_[at] = segment;
  segment.end = at;
}

MemoryMap::Segment* MemoryMap::segment_of(std::uint64_t address) {
  const auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return nullptr;
  Segment& segment = std::prev(after)->second;
  return address < segment.end ? &segment : nullptr;
}

void MemoryMap::hold(std::uint32_t index, bool waits) {
  const trace::LoggedBlock& block = log_.blocks[index];
  const std::uint64_t place = place_of(index);
  Segment* const segment = segment_of(block.address);
  if (segment != nullptr && !segment->pool_known) {  // the segment was acquired for this request
    segment->pool = block.pool;
    segment->pool_known = true;
  }
  if (segment != nullptr && !block.live_at_start) {
    ++placed_;
    if (segment->stream != block.stream) ++shared_;
  }
  drop_within(place, place + (log_.has_addresses() ? std::max<std::uint64_t>(block.bytes, 1) : 1));
  ends_[index] = end_of(block, segment);
  blocks_[place] = {.end = ends_[index], .block = index, .waits = waits};
  if (!waits) live_ += block.bytes;
}

MemoryMap::Blocks::iterator MemoryMap::drop(Blocks::iterator held) {
  if (!held->second.waits) live_ -= log_.blocks[held->second.block].bytes;
  return blocks_.erase(held);
}

// A block gets memory of other blocks, which were still waiting or whose free the log lacks.
void MemoryMap::drop_within(std::uint64_t begin, std::uint64_t end) {
  auto at = blocks_.lower_bound(begin);
  if (log_.has_addresses() && at != blocks_.begin()) {
    const auto before = std::prev(at);
    const trace::LoggedBlock& block = log_.blocks[before->second.block];
    if (before->first + block.bytes > begin) at = before;
  }
  while (at != blocks_.end() && at->first < end) at = drop(at);
}

MemoryMap::Blocks::iterator MemoryMap::find(std::uint32_t block) {
  const auto held = blocks_.find(place_of(block));
  return held != blocks_.end() && held->second.block == block ? held : blocks_.end();
}

std::uint64_t MemoryMap::end_of(const trace::LoggedBlock& block, const Segment* segment) const {
  if (block.held != 0) return block.address + block.held;
  if (!log_.snapshot) return block.address + block.bytes;
  const trace::TorchSettings& settings = log_.snapshot->settings;
  const std::uint64_t rounded = trace::torch_rounded(block.bytes, settings);
  const bool may_keep_rest =
      segment != nullptr && segment->large && !segment->expandable && !settings.expandable_segments;
  if (!may_keep_rest) return block.address + rounded;
  const auto next = blocks_.upper_bound(block.address);
  const std::uint64_t room_end =
      next == blocks_.end() ? segment->end : std::min(segment->end, next->first);
  return block.address + trace::torch_large_block(settings, rounded, room_end - block.address);
}

}  // namespace millrace
