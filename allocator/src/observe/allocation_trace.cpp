#include "millrace/observe/allocation_trace.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <unordered_set>

namespace millrace {

void AllocationTrace::allocated(const AllocationEvent& event) {
  add(event, options_.stacks == nullptr ? CallStacks::kNone : options_.stacks->here());
}

void AllocationTrace::found(const AllocationEvent& event) { add(event, CallStacks::kNone); }

void AllocationTrace::add(const AllocationEvent& event, CallStacks::Id stack) {
  const std::lock_guard lock{mutex_};
  next_position();
  ordering_.stream_saw(event.user, event.frontier, position_);
  ordering_.device_finished(event.completed, position_);
  TracedBlock& block = blocks_.emplace_back();
  block.id = event.id;
  block.address = reinterpret_cast<std::uintptr_t>(event.address);
  block.requested = event.requested;
  block.bytes = event.bytes;
  block.owner = event.owner;
  block.user = event.user;
  block.tag = tag_index(event.tag);
  block.stack = stack;
  block.allocated = position_;
  keep_bounded();
}

void AllocationTrace::use_recorded(std::uint64_t id, StreamId stream) {
  const std::lock_guard lock{mutex_};
  uses_.push_back({next_position(), id, stream});
}

void AllocationTrace::freed(const FreeEvent& event) {
  const std::lock_guard lock{mutex_};
  next_position();
  const auto block = std::ranges::lower_bound(blocks_, event.id, {}, &TracedBlock::id);
  if (block == blocks_.end() || block->id != event.id) return;
  block->freed = position_;
  block->free_points.assign(event.points.begin(), event.points.end());
}

void AllocationTrace::segment_acquired(void* base, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  acquire(base, bytes);
}

void AllocationTrace::acquire(void* base, std::size_t bytes) {
  segments_.push_back({reinterpret_cast<std::uintptr_t>(base), bytes, next_position(), kNever});
}

void AllocationTrace::segment_released(void* base, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  release(base, bytes);
}

// A range may release any part of its memory. The segment is then split into the released part and
// the remaining parts.
void AllocationTrace::release(void* base, std::size_t bytes) {
  next_position();
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  const std::uintptr_t end = begin + bytes;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const TracedSegment whole = segments_[i];
    const std::uintptr_t whole_end = whole.base + whole.bytes;
    if (whole.released != kNever || whole.base >= end || whole_end <= begin) continue;
    const auto cut = [&](std::uintptr_t from, std::uintptr_t to) {
      TracedSegment piece = whole;
      piece.base = from;
      piece.bytes = to - from;
      segments_.insert(segments_.begin() + static_cast<std::ptrdiff_t>(++i), piece);
    };
    TracedSegment& gone = segments_[i];
    gone.base = std::max(whole.base, begin);
    gone.bytes = std::min(whole_end, end) - gone.base;
    gone.released = position_;
    if (whole.base < begin) cut(whole.base, begin);
    if (end < whole_end) cut(end, whole_end);
  }
}

void AllocationTrace::pages_moved(void* to, void* from, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  release(from, bytes);
  acquire(to, bytes);
  moves_.push_back({position_, reinterpret_cast<std::uintptr_t>(to),
                    reinterpret_cast<std::uintptr_t>(from), bytes});
}

TracePosition AllocationTrace::begin_window(std::string name) {
  const std::lock_guard lock{mutex_};
  marks_.push_back({next_position(), std::move(name)});
  return position_;
}

TraceWindow AllocationTrace::window(std::string_view name) const {
  const auto last = std::find_if(marks_.rbegin(), marks_.rend(),
                                 [&](const Mark& mark) { return mark.name == name; });
  if (last == marks_.rend()) {
    throw std::out_of_range{"the trace has no mark '" + std::string{name} + "'" +
                            (complete_from_ > 0 ? ", or its window was discarded" : "")};
  }
  if (last->position < complete_from_) {
    throw std::out_of_range{"the beginning of window '" + std::string{name} +
                            "' has been discarded"};
  }
  const bool is_newest = last == marks_.rbegin();
  return {last->position, is_newest ? kNever : std::prev(last)->position};
}

void AllocationTrace::discard_before(TracePosition position) {
  position = std::min(position, position_);
  forget_blocks(position);
  std::erase_if(segments_,
                [&](const TracedSegment& segment) { return segment.released <= position; });
  std::erase_if(uses_, [&](const TracedUse& use) {
    const auto block = std::ranges::lower_bound(blocks_, use.id, {}, &TracedBlock::id);
    return block == blocks_.end() || block->id != use.id;
  });
  TracePosition oldest_free = position;  // orderings after this position still matter
  for (const TracedBlock& block : blocks_) oldest_free = std::min(oldest_free, block.freed);
  ordering_.discard_before(oldest_free);
  const auto first_kept = std::ranges::upper_bound(marks_, position, {}, &Mark::position);
  if (first_kept != marks_.begin()) marks_.erase(marks_.begin(), std::prev(first_kept));
  std::erase_if(moves_, [&](const TracedMove& move) { return move.position < oldest_free; });
  const std::size_t kept = position_ - position;
  if (times_.size() > kept)
    times_.erase(times_.begin(), times_.end() - static_cast<std::ptrdiff_t>(kept));
  complete_from_ = std::max(complete_from_, position);
}

void AllocationTrace::read(const std::function<void()>& read) const {
  const std::lock_guard lock{mutex_};
  read();
}

std::int64_t AllocationTrace::time_us(TracePosition position) const noexcept {
  if (!options_.clock || times_.empty()) return static_cast<std::int64_t>(position);
  const TracePosition oldest = position_ + 1 - times_.size();  // first position that has a time
  return position < oldest ? times_.front() : times_[std::min(position, position_) - oldest];
}

TracePosition AllocationTrace::next_position() {
  if (options_.clock) times_.push_back(options_.clock());
  return ++position_;
}

std::uint32_t AllocationTrace::tag_index(std::string_view name) {
  if (const auto known = tag_indices_.find(name); known != tag_indices_.end()) return known->second;
  const auto index = static_cast<std::uint32_t>(tags_.size());
  tags_.emplace_back(name);
  tag_indices_.emplace(name, index);
  return index;
}

void AllocationTrace::keep_bounded() {
  const std::size_t most = options_.keep + options_.keep / 4;
  if (options_.keep == 0 || blocks_.size() < std::max(most, discard_at_)) return;
  discard_before(blocks_[blocks_.size() - options_.keep].allocated - 1);
  discard_at_ = blocks_.size() + blocks_.size() / 4;  // so each block is visited a few times only
}

// In a snapshot, points on the owner's stream do not count: its freed blocks are free for it.
TracePosition AllocationTrace::forgettable_from(const TracedBlock& block) const {
  TracePosition from = block.freed;
  for (const Point point : block.free_points) {
    if (options_.for_snapshots && point.stream == block.owner) continue;
    from = std::max(from, ordering_.completed_from(point));
  }
  return from;
}

void AllocationTrace::forget_blocks(TracePosition position) {
  std::unordered_set<std::uintptr_t> given_again;
  const auto is_forgotten = [&](const TracedBlock& block) {
    const bool is_newest = !options_.for_snapshots || given_again.insert(block.address).second;
    const TracePosition from = is_newest ? forgettable_from(block) : block.freed;
    return from <= position;
  };
  const auto kept = std::remove_if(blocks_.rbegin(), blocks_.rend(), is_forgotten);
  blocks_.erase(blocks_.begin(), kept.base());
}

}  // namespace millrace
