#include "millrace/observe/trace/allocation_log.hpp"

#include <algorithm>

namespace millrace::trace {

const char* to_string(EventKind kind) noexcept {
  switch (kind) {
    case EventKind::allocate:
      return "allocate";
    case EventKind::free_requested:
      return "free_requested";
    case EventKind::free_completed:
      return "free_completed";
    case EventKind::segment_alloc:
      return "segment_alloc";
    case EventKind::segment_free:
      return "segment_free";
    case EventKind::segment_map:
      return "segment_map";
    case EventKind::segment_unmap:
      return "segment_unmap";
    case EventKind::out_of_memory:
      return "out_of_memory";
  }
  return "?";
}

const char* to_string(OrderKind kind) noexcept {
  switch (kind) {
    case OrderKind::marked:
      return "marked";
    case OrderKind::waited:
      return "waited";
    case OrderKind::used:
      return "used";
    case OrderKind::passed:
      return "passed";
    case OrderKind::passed_stream:
      return "passed_stream";
    case OrderKind::passed_device:
      return "passed_device";
    case OrderKind::closed:
      return "closed";
    case OrderKind::not_passed:
      return "not_passed";
    case OrderKind::stream_not_passed:
      return "stream_not_passed";
    case OrderKind::pool_keeps:
      return "pool_keeps";
    case OrderKind::pool_trimmed:
      return "pool_trimmed";
    case OrderKind::transferred:
      return "transferred";
  }
  return "?";
}

bool has_place(const AllocationLog& log, const LogEvent& segment) noexcept {
  return log.format != TraceFormat::millrace || segment.address != 0;
}

std::string site_name(const StackTable& stacks, StackTable::Id stack) {
  if (stack == StackTable::kNone) return "";
  const StackFrame& frame = stacks.at(stacks.innermost(stack));
  const std::size_t slash = frame.file.rfind('/');
  std::string place = slash == std::string::npos ? frame.file : frame.file.substr(slash + 1);
  if (frame.line != 0) place += ':' + std::to_string(frame.line);
  return place.empty() ? frame.function : frame.function + " (" + place + ')';
}

std::vector<Interval> lifetimes(const AllocationLog& log, std::uint32_t device) {
  const auto end = static_cast<std::int64_t>(log.events.size());
  std::vector<Interval> by_block;
  for (const LoggedBlock& block : log.blocks) {
    by_block.push_back({-1, block.freed_before_start ? -1 : end, block.bytes});
  }
  for (std::size_t i = 0; i < log.events.size(); ++i) {
    const LogEvent& event = log.events[i];
    const auto now = static_cast<std::int64_t>(i);
    if (event.kind == EventKind::allocate) by_block[event.block].lower = now;
    if (event.kind == EventKind::free_requested) {
      by_block[event.block].upper = std::min(by_block[event.block].upper, now);
    }
  }
  std::vector<Interval> intervals;
  for (std::size_t i = 0; i < by_block.size(); ++i) {
    if (log.blocks[i].device == device) intervals.push_back(by_block[i]);
  }
  return intervals;
}

}  // namespace millrace::trace
