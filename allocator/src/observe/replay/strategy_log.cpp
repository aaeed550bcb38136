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
  if (log.program.empty() && cost_.waits != 0) cost_.most_delay_us.reset();
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
  if (step.kind == OrderKind::marked) {
    for (Handed& each : to_hand_over_) {
      const bool covers = log_.blocks[each.block].stream == step.stream;
      if (covers && !each.marker) each.marker = step.marker;
    }
  }
  if (step.kind == OrderKind::waited && step.stream == group_.to) hand_over(step);
}

// What was allocated before the marker that main now waits for.
void StrategyLog::hand_over(const LoggedOrder& wait) {
  std::erase_if(to_hand_over_, [&](const Handed& each) {
    const bool covered =
        log_.blocks[each.block].stream == wait.other && each.marker && *each.marker <= wait.marker;
    if (!covered) return false;
    LoggedOrder step = wait;
    step.kind = OrderKind::transferred;
    step.stream = group_.to;
    step.block = each.block;
    add_step(step);
    handed_over_.insert(each.block);
    ++changed_;
    return true;
  });
}

void StrategyLog::take(const LogEvent& event) {
  if (!is_of_group(event.block)) return add_event(event);
  if (event.kind == EventKind::allocate) return allocate(event);
  if (event.kind == EventKind::free_requested) return free(event);
  if (!keeps_buffers()) return add_event(event);
  const auto known = in_buffer_.find(event.block);
  if (event.kind != EventKind::free_completed || known == in_buffer_.end()) return;
  buffers_[known->second.first][known->second.second].last_uses.clear();
  in_buffer_.erase(known);
}

void StrategyLog::allocate(LogEvent event) {
  switch (strategy_) {
    case WhatIfStrategy::in_place:
      wait(event, group_.to, {position_ - 1, mark(event, group_.to)});
      event.stream = group_.to;
      [[fallthrough]];
    case WhatIfStrategy::precise:
      result_.blocks[event.block].stream = group_.to;
      ++changed_;
      return add_event(event);
    case WhatIfStrategy::transfer:
      to_hand_over_.push_back({event.block, std::nullopt});
      return add_event(event);
    case WhatIfStrategy::ring:
    case WhatIfStrategy::free_list:
      ++changed_;
      return use_buffer(event);
  }
}

void StrategyLog::free(LogEvent event) {
  if (in_buffer_.contains(event.block)) return keep_buffer(event);
  std::erase_if(to_hand_over_, [&](const Handed& each) { return each.block == event.block; });
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
  // Waits that overlap delay no more than one wait for as long as all of them. They begin in order.
  const std::int64_t from = std::max(before.time_us, waited_until_);
  if (!known || *known <= from) return;
  if (cost_.most_delay_us) *cost_.most_delay_us += *known - from;
  waited_until_ = *known;
}

std::uint64_t StrategyLog::place_of(const LoggedBlock& block) const {
  const bool has_site = block.stack != StackTable::kNone;
  return has_site ? block.stack : (std::uint64_t{1} << 40) + std::bit_width(block.bytes);
}

bool StrategyLog::is_ready(const Buffer& buffer, std::uint32_t stream) {
  return std::ranges::all_of(buffer.last_uses,
                             [&](const auto& use) { return use.first == stream; });
}

// The smallest that is large enough; of a ring otherwise the largest, which then grows.
StrategyLog::Buffer* StrategyLog::free_buffer(std::vector<Buffer>& buffers,
                                              const LoggedBlock& wanted) const {
  const std::uint64_t bytes = wanted.bytes;
  Buffer* best = nullptr;
  for (Buffer& buffer : buffers) {
    const bool fits = buffer.bytes >= bytes && is_ready(buffer, wanted.stream);
    if (!buffer.free || (strategy_ == WhatIfStrategy::free_list && !fits)) continue;
    const auto rank = [&](const Buffer& each) {
      return std::pair{each.bytes < bytes, each.bytes < bytes ? ~each.bytes : each.bytes};
    };
    if (best == nullptr || rank(buffer) < rank(*best)) best = &buffer;
  }
  return best;
}

void StrategyLog::use_buffer(const LogEvent& event) {
  const LoggedBlock& wanted = log_.blocks[event.block];
  const std::uint64_t place = place_of(wanted);
  std::vector<Buffer>& buffers = buffers_[place];
  Buffer* buffer = free_buffer(buffers, wanted);
  if (buffer == nullptr) buffer = &buffers.emplace_back();
  in_buffer_.erase(buffer->last);
  for (const auto& [stream, work] : buffer->last_uses) {
    if (stream != wanted.stream) wait(event, stream, work);
  }
  if (buffer->bytes < wanted.bytes) {
    LogEvent step = event;
    if (buffer->bytes != 0) {
      step.kind = EventKind::free_requested;
      step.stream = wanted.stream;
      step.block = buffer->block;
      add_event(step);
    }
    const bool has_headroom = strategy_ == WhatIfStrategy::ring;
    buffer->bytes = has_headroom ? with_headroom(wanted.bytes) : wanted.bytes;
    buffer->block = add_block(buffer->bytes, wanted);
    step = event;
    step.block = buffer->block;
    step.bytes = buffer->bytes;
    add_event(step);
  }
  buffer->free = false;
  buffer->last_uses.clear();
  in_buffer_[event.block] = {place, static_cast<std::size_t>(buffer - buffers.data())};
}

void StrategyLog::keep_buffer(const LogEvent& event) {
  const auto [place, index] = in_buffer_.at(event.block);
  Buffer& buffer = buffers_[place][index];
  buffer.free = true;
  buffer.last = event.block;
  std::set<std::uint32_t> streams;
  if (const auto uses = uses_.extract(event.block)) streams = uses.mapped();
  if (log_.streams[event.stream].for_all) return;  // all work is complete
  streams.insert(event.stream);
  for (const std::uint32_t stream : streams) {
    const bool own = group_.stream && stream == *group_.stream;
    const bool waits = strategy_ == WhatIfStrategy::ring && !own;
    buffer.last_uses[stream] = {position_, waits ? mark(event, stream) : 0};
  }
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
