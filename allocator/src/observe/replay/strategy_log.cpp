#include "observe/replay/strategy_log.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace millrace {

using trace::AllocationLog;
using trace::EventKind;
using trace::LogEvent;
using trace::LoggedBlock;
using trace::LoggedOrder;
using trace::OrderKind;
using trace::StackTable;

namespace {

constexpr std::uint64_t kMarkers = std::uint64_t{1} << 62;  // beyond those of the log

// Values of `may_use` that name no single stream.
constexpr std::uint32_t kEveryStream = UINT32_MAX, kNoStream = UINT32_MAX - 1;

std::uint64_t with_headroom(std::uint64_t bytes) { return bytes + bytes * 3 / 10; }

}  // namespace

StrategyLog::StrategyLog(const AllocationLog& log, const KnownCompletions& known,
                         const WhatIfGroup& group, WhatIfStrategy strategy)
    : log_(log), known_(known), group_(group), strategy_(strategy), result_(log) {
  result_.events.clear();
  result_.order.clear();
  cost_.waits_are_known = strategy != WhatIfStrategy::precise;
  in_order(
      log,
      [&](const LoggedOrder& step) {
        ++position_;
        take(step);
      },
      [&](const LogEvent& event) {
        ++position_;
        take(event);
      });
  const bool has_times = !log.program.empty() || cost_.waits == 0;
  if (!has_times || !cost_.waits_are_known) cost_.most_delay_us.reset();
}

bool StrategyLog::keeps_buffers() const {
  return strategy_ == WhatIfStrategy::ring || strategy_ == WhatIfStrategy::free_list;
}

bool StrategyLog::is_of_group(std::uint32_t block) const {
  return block != LogEvent::kNoBlock && group_.has(log_, log_.blocks[block]);
}

void StrategyLog::take(LoggedOrder step) {
  if (step.kind == OrderKind::used && in_buffer_.contains(step.block)) {
    uses_[step.block].insert(step.stream);
    return;
  }
  add_step(step);
  if (strategy_ != WhatIfStrategy::transfer) return;
  if (step.kind == OrderKind::marked) cover(step);
  if (step.kind == OrderKind::waited && step.stream == group_.to) hand_over(step);
}

void StrategyLog::cover(const LoggedOrder& mark) {
  ToHandOver& blocks = to_hand_over_[mark.stream];
  for (const std::uint32_t block : std::exchange(blocks.unmarked, {}))
    blocks.marked.emplace(mark.marker, block);
}

// Takes the blocks that were allocated before the marker that main now waits for.
void StrategyLog::hand_over(const LoggedOrder& wait) {
  auto& marked = to_hand_over_[wait.other].marked;
  const auto end = marked.upper_bound(wait.marker);
  for (auto it = marked.begin(); it != end; ++it) {
    const std::uint32_t block = it->second;
    if (may_hand_over_.erase(block) == 0) continue;  // the block was freed
    LoggedOrder step = wait;
    step.kind = OrderKind::transferred;
    step.stream = group_.to;
    step.block = block;
    add_step(step);
    handed_over_.insert(block);
    changed_.push_back(block);
  }
  marked.erase(marked.begin(), end);
}

void StrategyLog::take(const LogEvent& event) {
  if (!is_of_group(event.block)) return add_event(event);
  if (event.kind == EventKind::allocate) return allocate(event);
  if (event.kind == EventKind::free_requested) return free(event);
  if (!keeps_buffers()) return add_event(event);
  if (event.kind == EventKind::free_completed) complete(event.block);
}

void StrategyLog::allocate(LogEvent event) {
  switch (strategy_) {
    case WhatIfStrategy::in_place:
      wait(event, group_.to, {position_ - 1, mark(event, group_.to)});
      event.stream = group_.to;
      [[fallthrough]];
    case WhatIfStrategy::precise:
      result_.blocks[event.block].stream = group_.to;
      changed_.push_back(event.block);
      return add_event(event);
    case WhatIfStrategy::transfer:
      to_hand_over_[log_.blocks[event.block].stream].unmarked.push_back(event.block);
      may_hand_over_.insert(event.block);
      return add_event(event);
    case WhatIfStrategy::ring:
    case WhatIfStrategy::free_list:
      changed_.push_back(event.block);
      return use_buffer(event);
  }
}

void StrategyLog::free(LogEvent event) {
  if (in_buffer_.contains(event.block)) return keep_buffer(event);
  may_hand_over_.erase(event.block);
  const bool by_owner = event.stream == log_.blocks[event.block].stream;
  if (by_owner && handed_over_.contains(event.block)) event.stream = group_.to;
  add_event(event);
}

std::uint64_t StrategyLog::mark(const LogEvent& at, std::uint32_t stream) {
  const std::uint64_t marker = kMarkers + ++markers_;
  add_step({.kind = OrderKind::marked,
            .device = at.device,
            .stream = stream,
            .marker = marker,
            .time_us = at.time_us});
  return marker;
}

void StrategyLog::wait(const LogEvent& before, std::uint32_t other, LastUse work) {
  add_step({.kind = OrderKind::waited,
            .device = before.device,
            .stream = log_.blocks[before.block].stream,
            .other = other,
            .marker = work.marker,
            .time_us = before.time_us});
  ++cost_.waits;
  const auto known = known_.time_us(other, work.position);
  if (!known) cost_.most_delay_us.reset();
  // Overlapping waits delay the program as much as their union does. Waits begin in order.
  const std::int64_t from = std::max(before.time_us, waited_until_);
  if (!known || *known <= from) return;
  if (cost_.most_delay_us) *cost_.most_delay_us += *known - from;
  waited_until_ = *known;
}

std::uint64_t StrategyLog::place_of(const LoggedBlock& block) const {
  const bool has_site = block.stack != StackTable::kNone;
  return has_site ? block.stack : (std::uint64_t{1} << 40) + std::bit_width(block.bytes);
}

std::uint32_t StrategyLog::may_use(const Buffer& buffer) const {
  if (strategy_ == WhatIfStrategy::ring || buffer.last_uses.empty()) return kEveryStream;
  return buffer.last_uses.size() == 1 ? buffer.last_uses.begin()->first : kNoStream;
}

void StrategyLog::add_free(Buffers& buffers, std::size_t index) const {
  const Buffer& buffer = buffers.all[index];
  buffers.free[may_use(buffer)].emplace(buffer.bytes, index);
}

bool StrategyLog::remove_free(Buffers& buffers, std::size_t index) const {
  const Buffer& buffer = buffers.all[index];
  return buffers.free[may_use(buffer)].erase({buffer.bytes, index}) != 0;
}

// Returns the smallest buffer that is large enough, the oldest of equal ones. In a ring without
// such a buffer, returns the largest, which then grows.
std::optional<std::size_t> StrategyLog::free_buffer(const Buffers& buffers,
                                                    const LoggedBlock& wanted) const {
  std::optional<std::pair<std::uint64_t, std::size_t>> best;
  for (const std::uint32_t user : {kEveryStream, wanted.stream}) {
    const auto of_user = buffers.free.find(user);
    if (of_user == buffers.free.end() || of_user->second.empty()) continue;
    const auto& free = of_user->second;
    auto found = free.lower_bound({wanted.bytes, 0});
    if (found == free.end() && strategy_ == WhatIfStrategy::ring)
      found = free.lower_bound({free.rbegin()->first, 0});
    if (found != free.end() && (!best || *found < *best)) best = *found;
  }
  return best ? std::optional{best->second} : std::nullopt;
}

void StrategyLog::use_buffer(const LogEvent& event) {
  const LoggedBlock& wanted = log_.blocks[event.block];
  const std::uint64_t place = place_of(wanted);
  Buffers& buffers = buffers_[place];
  const std::optional<std::size_t> known = free_buffer(buffers, wanted);
  const std::size_t index = known.value_or(buffers.all.size());
  if (known) remove_free(buffers, index);
  Buffer& buffer = known ? buffers.all[index] : buffers.all.emplace_back();
  in_buffer_.erase(buffer.last);
  for (const auto& [stream, work] : buffer.last_uses) {
    if (stream != wanted.stream) wait(event, stream, work);
  }
  if (buffer.bytes < wanted.bytes) grow(buffer, event);
  buffer.last_uses.clear();
  in_buffer_[event.block] = {place, index};
}

void StrategyLog::grow(Buffer& buffer, const LogEvent& event) {
  const LoggedBlock& wanted = log_.blocks[event.block];
  LogEvent step = event;
  if (buffer.bytes != 0) {
    step.kind = EventKind::free_requested;
    step.stream = wanted.stream;
    step.block = buffer.block;
    add_event(step);
  }
  const bool has_headroom = strategy_ == WhatIfStrategy::ring;
  buffer.bytes = has_headroom ? with_headroom(wanted.bytes) : wanted.bytes;
  buffer.block = add_block(buffer.bytes, wanted);
  step = event;
  step.block = buffer.block;
  step.bytes = buffer.bytes;
  add_event(step);
}

void StrategyLog::keep_buffer(const LogEvent& event) {
  const auto [place, index] = in_buffer_.at(event.block);
  Buffers& buffers = buffers_[place];
  Buffer& buffer = buffers.all[index];
  buffer.last = event.block;
  std::set<std::uint32_t> streams;
  if (const auto uses = uses_.extract(event.block)) streams = uses.mapped();
  const bool all_work_is_complete = log_.streams[event.stream].for_all;
  if (all_work_is_complete) {
    streams.clear();
  } else {
    streams.insert(event.stream);
  }
  for (const std::uint32_t stream : streams) {
    const bool own = group_.stream && stream == *group_.stream;
    const bool waits = strategy_ == WhatIfStrategy::ring && !own;
    buffer.last_uses[stream] = {position_, waits ? mark(event, stream) : 0};
  }
  add_free(buffers, index);
}

// After a free is complete, every stream may use its buffer, unless it holds another block by now.
void StrategyLog::complete(std::uint32_t block) {
  const auto known = in_buffer_.find(block);
  if (known == in_buffer_.end()) return;
  const auto [place, index] = known->second;
  in_buffer_.erase(known);
  Buffers& buffers = buffers_[place];
  if (!remove_free(buffers, index)) return;
  buffers.all[index].last_uses.clear();
  add_free(buffers, index);
}

void StrategyLog::add_event(LogEvent event) { result_.events.push_back(std::move(event)); }

void StrategyLog::add_step(LoggedOrder step) {
  step.before = result_.events.size();
  result_.order.push_back(step);
}

std::uint32_t StrategyLog::add_block(std::uint64_t bytes, const LoggedBlock& like) {
  LoggedBlock& block = result_.blocks.emplace_back(like);
  block.bytes = bytes;
  block.address = 0;
  return static_cast<std::uint32_t>(result_.blocks.size() - 1);
}

}  // namespace millrace
