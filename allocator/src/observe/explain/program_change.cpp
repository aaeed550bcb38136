#include "millrace/observe/program_change.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "observe/explain/block_times.hpp"
#include "observe/replay/strategy_log.hpp"

namespace millrace {

namespace {

using trace::AllocationLog;
using trace::EventKind;
using trace::LogEvent;
using trace::LoggedBlock;

/** Data that all changed logs share. */
AllocationLog beginning(const AllocationLog& log) {
  AllocationLog result;
  result.source = log.source;
  result.format = log.format;
  result.streams = log.streams;
  if (log.snapshot) {
    result.snapshot.emplace();
    result.snapshot->settings = log.snapshot->settings;
  }
  return result;
}

void add_free(AllocationLog& result, const LogEvent& event) {
  result.events.push_back(event);
  if (!has_completions(result)) return;
  result.events.push_back(event);
  result.events.back().kind = EventKind::free_completed;
}

/** Returns the streams that own blocks of a device, except `main`. */
bool has_side_streams(const AllocationLog& log, std::uint32_t device, std::uint32_t main) {
  return std::ranges::any_of(log.blocks, [&](const LoggedBlock& block) {
    return block.device == device && block.stream != main && !log.streams[block.stream].for_all;
  });
}

/** Returns whether freed blocks of a device wait for recorded uses. */
bool has_late_frees(const AllocationLog& log, std::uint32_t device) {
  if (!has_completions(log)) return false;
  const BlockTimes times{log};
  std::vector<std::size_t> events;  // of the device, before each event
  std::size_t count = 0;
  for (const LogEvent& event : log.events) {
    events.push_back(count);
    count += event.device == device ? 1 : 0;
  }
  for (std::uint32_t i = 0; i < log.blocks.size(); ++i) {
    if (log.blocks[i].device != device || times.freed(i) == BlockTimes::kNever) continue;
    const std::uint32_t completed = times.completed(i);
    if (completed == BlockTimes::kNever) return true;
    if (events[completed] > events[times.freed(i)] + 1) return true;
  }
  return false;
}

/** Numbers the events of a changed log, for the steps of its order that come before them. */
void keep_order(AllocationLog& result, const AllocationLog& log, std::uint32_t device,
                const std::vector<std::uint32_t>& renamed,
                const std::vector<std::uint64_t>& events_before, bool with_uses) {
  for (const trace::LoggedOrder& step : log.order) {
    if (step.device != device || (!with_uses && step.kind == trace::OrderKind::used)) continue;
    trace::LoggedOrder copy = step;
    if (step.block != LogEvent::kNoBlock) {
      copy.block = renamed[step.block];
      if (copy.block == LogEvent::kNoBlock) continue;
    }
    copy.before = events_before[step.before];
    result.order.push_back(copy);
  }
}

}  // namespace

const char* to_string(ProgramChange change) noexcept {
  switch (change) {
    case ProgramChange::none:
      return "none";
    case ProgramChange::one_stream:
      return "one stream";
    case ProgramChange::ring:
      return "ring";
    case ProgramChange::no_recorded_uses:
      return "no recorded uses";
    case ProgramChange::handed_over:
      return "handed over";
  }
  return "?";
}

std::optional<std::uint32_t> main_stream(const AllocationLog& log, std::uint32_t device) {
  struct Held {
    std::uint64_t now = 0, most = 0;
  };
  std::map<std::uint32_t, Held> held;  // by stream
  const auto add = [&](const LoggedBlock& block) {
    if (log.streams[block.stream].for_all) return;
    Held& of = held[block.stream];
    of.now += block.bytes;
    of.most = std::max(of.most, of.now);
  };
  for (const LoggedBlock& block : log.blocks) {
    if (block.device == device && block.live_at_start && !block.freed_before_start) add(block);
  }
  for (const LogEvent& event : log.events) {
    if (event.device != device || event.block == LogEvent::kNoBlock) continue;
    const LoggedBlock& block = log.blocks[event.block];
    if (event.kind == EventKind::allocate) add(block);
    if (event.kind == EventKind::free_requested && !log.streams[block.stream].for_all)
      held[block.stream].now -= block.bytes;
  }
  const auto most =
      std::ranges::max_element(held, {}, [](const auto& each) { return each.second.most; });
  return most == held.end() ? std::nullopt : std::optional{most->first};
}

AllocationLog changed(const AllocationLog& log, std::uint32_t device, ProgramChange change,
                      std::uint32_t main) {
  if (change == ProgramChange::handed_over) {
    const KnownCompletions known{log, device};
    return StrategyLog{
        log, known, {.stream = {}, .to = main, .stack = {}}, WhatIfStrategy::transfer}
        .log();
  }
  AllocationLog result = beginning(log);
  std::vector<std::uint32_t> renamed(log.blocks.size(), LogEvent::kNoBlock);
  // Millrace's traces have the order of streams, so frees without recorded uses matter as well.
  const bool without_uses = change == ProgramChange::no_recorded_uses;
  const bool at_once =
      change == ProgramChange::one_stream || (without_uses && !knows_order(log.format));
  for (std::uint32_t i = 0; i < log.blocks.size(); ++i) {
    const LoggedBlock& block = log.blocks[i];
    const bool left_out = block.device != device ||
                          (change == ProgramChange::ring && block.stream != main) ||
                          (at_once && block.freed_before_start);
    if (left_out) continue;
    renamed[i] = static_cast<std::uint32_t>(result.blocks.size());
    result.blocks.push_back(block);
    if (change == ProgramChange::one_stream) result.blocks.back().stream = main;
  }
  std::vector<std::uint64_t> events_before;
  for (const LogEvent& event : log.events) {
    events_before.push_back(result.events.size());
    if (event.device != device) continue;
    if (event.kind == EventKind::out_of_memory) {
      // With a ring of buffers, a side stream requests no memory.
      if (change == ProgramChange::ring && event.stream != main) continue;
      result.events.push_back(event);
      if (change == ProgramChange::one_stream) result.events.back().stream = main;
    }
    const bool of_block = event.block != LogEvent::kNoBlock;
    if (!of_block || renamed[event.block] == LogEvent::kNoBlock) continue;
    LogEvent copy = event;
    copy.block = renamed[event.block];
    if (change == ProgramChange::one_stream) copy.stream = main;
    if (without_uses && !log.streams[copy.stream].for_all)
      copy.stream = log.blocks[event.block].stream;
    if (!at_once || event.kind == EventKind::allocate) {
      result.events.push_back(copy);
    } else if (event.kind == EventKind::free_requested) {
      add_free(result, copy);
    }
  }
  events_before.push_back(result.events.size());
  // Includes the uses of main's blocks on side streams, and when main was ordered after them.
  if (!at_once) keep_order(result, log, device, renamed, events_before, !without_uses);
  return result;
}

std::uint64_t ring_bytes(const AllocationLog& log, std::uint32_t device, std::uint32_t main) {
  struct Use {
    std::uint64_t now = 0, most = 0;
  };
  std::map<std::uint32_t, Use> streams;
  const auto add = [&](const LoggedBlock& block) {
    Use& use = streams[block.stream];
    use.now += block.bytes;
    use.most = std::max(use.most, use.now);
  };
  const auto counts = [&](const LoggedBlock& block) {
    return block.device == device && block.stream != main;
  };
  for (const LoggedBlock& block : log.blocks) {
    if (block.live_at_start && counts(block)) add(block);
  }
  // A buffer is used again as soon as its own stream may use it.
  const BlockTimes times{log};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ends;  // event and block
  for (std::uint32_t i = 0; i < log.blocks.size(); ++i) {
    if (counts(log.blocks[i]) && times.completed(i) != BlockTimes::kNever)
      ends.emplace_back(times.completed(i), i);
  }
  std::ranges::sort(ends);
  auto next = ends.begin();
  for (std::uint32_t i = 0; i < log.events.size(); ++i) {
    for (; next != ends.end() && next->first == i; ++next) {
      const LoggedBlock& block = log.blocks[next->second];
      streams[block.stream].now -= block.bytes;
    }
    const LogEvent& event = log.events[i];
    if (event.kind == EventKind::allocate && counts(log.blocks[event.block]))
      add(log.blocks[event.block]);
  }
  std::uint64_t bytes = 0;
  for (const auto& [stream, use] : streams) bytes += use.most;
  return bytes;
}

std::vector<ProgramChange> possible_changes(const AllocationLog& log, std::uint32_t device,
                                            std::uint32_t main) {
  std::vector<ProgramChange> changes;
  if (has_side_streams(log, device, main)) {
    changes.push_back(ProgramChange::one_stream);
    changes.push_back(ProgramChange::ring);
  }
  if (has_late_frees(log, device)) changes.push_back(ProgramChange::no_recorded_uses);
  const bool main_waits = std::ranges::any_of(log.order, [&](const trace::LoggedOrder& step) {
    return step.kind == trace::OrderKind::waited && step.stream == main;
  });
  if (main_waits && has_side_streams(log, device, main))
    changes.push_back(ProgramChange::handed_over);
  return changes;
}

}  // namespace millrace
