#include "millrace/observe/program_change.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "observe/explain/block_times.hpp"

namespace millrace {

namespace {

using trace::AllocationLog;
using trace::EventKind;
using trace::LogEvent;
using trace::LoggedBlock;

/** What is the same in every changed log. */
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

/** Streams that blocks of a device belong to, except `main`. */
bool has_side_streams(const AllocationLog& log, std::uint32_t device, std::uint32_t main) {
  return std::ranges::any_of(log.blocks, [&](const LoggedBlock& block) {
    return block.device == device && block.stream != main;
  });
}

bool has_late_frees(const AllocationLog& log, std::uint32_t device) {
  if (!has_completions(log)) return false;
  const LogEvent* requested = nullptr;
  for (const LogEvent& event : log.events) {
    if (event.device != device) continue;
    const bool completes_at_once =
        requested == nullptr ||
        (event.kind == EventKind::free_completed && event.block == requested->block);
    if (!completes_at_once) return true;
    requested = event.kind == EventKind::free_requested ? &event : nullptr;
  }
  return requested != nullptr;
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
  }
  return "?";
}

AllocationLog changed(const AllocationLog& log, std::uint32_t device, ProgramChange change,
                      std::uint32_t main) {
  AllocationLog result = beginning(log);
  std::vector<std::uint32_t> renamed(log.blocks.size(), LogEvent::kNoBlock);
  const bool at_once =
      change == ProgramChange::one_stream || change == ProgramChange::no_recorded_uses;
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
  for (const LogEvent& event : log.events) {
    const bool of_block = event.block != LogEvent::kNoBlock;
    if (event.device != device || !of_block || renamed[event.block] == LogEvent::kNoBlock) continue;
    LogEvent copy = event;
    copy.block = renamed[event.block];
    if (change == ProgramChange::one_stream) copy.stream = main;
    if (!at_once || event.kind == EventKind::allocate) {
      result.events.push_back(copy);
    } else if (event.kind == EventKind::free_requested) {
      add_free(result, copy);
    }
  }
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
  const EventKind end =
      has_completions(log) ? EventKind::free_completed : EventKind::free_requested;
  for (const LogEvent& event : log.events) {
    if (event.block == LogEvent::kNoBlock || !counts(log.blocks[event.block])) continue;
    if (event.kind == EventKind::allocate) add(log.blocks[event.block]);
    if (event.kind == end)
      streams[log.blocks[event.block].stream].now -= log.blocks[event.block].bytes;
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
  return changes;
}

}  // namespace millrace
