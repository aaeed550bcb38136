#include "observe/explain/block_times.hpp"

namespace millrace {

using trace::EventKind;
using trace::LogEvent;

BlockTimes::BlockTimes(const trace::AllocationLog& log)
    : allocated_(log.blocks.size(), kNever),
      freed_(log.blocks.size(), kNever),
      completed_(log.blocks.size(), kNever) {
  const bool completes = has_completions(log);
  for (std::uint32_t i = 0; i < log.events.size(); ++i) {
    const LogEvent& event = log.events[i];
    if (event.kind == EventKind::allocate) allocated_[event.block] = i;
    if (event.kind == EventKind::free_requested) {
      freed_[event.block] = i;
      if (!completes) completed_[event.block] = i;
    }
    if (event.kind == EventKind::free_completed) completed_[event.block] = i;
  }
}

bool has_completions(const trace::AllocationLog& log) {
  return log.snapshot.has_value() || log.format == trace::TraceFormat::millrace;
}

}  // namespace millrace
