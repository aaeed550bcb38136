#include "observe/replay/known_completions.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace millrace {

using trace::AllocationLog;
using trace::EventKind;
using trace::LogEvent;
using trace::LoggedOrder;
using trace::OrderKind;

KnownCompletions::KnownCompletions(const AllocationLog& log, std::uint32_t device) {
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> marked;  // positions
  std::map<std::uint32_t, std::pair<std::uint32_t, std::size_t>> freed;   // stream and position
  std::set<std::uint32_t> seen;
  std::size_t position = 0;
  const auto know = [&](std::uint32_t stream, std::size_t until, std::int64_t time_us) {
    std::vector<Known>& known = streams_[stream];
    if (known.empty() || known.back().until < until) known.push_back({until, time_us});
  };
  in_order(
      log,
      [&](const LoggedOrder& step) {
        ++position;
        if (step.device != device) return;
        if (step.kind != OrderKind::passed_device) seen.insert(step.stream);
        if (step.kind == OrderKind::marked) marked[{step.stream, step.marker}] = position;
        if (step.kind == OrderKind::passed_stream) know(step.stream, position, step.time_us);
        if (step.kind == OrderKind::passed_device) {
          for (const std::uint32_t stream : seen) know(stream, position, step.time_us);
        }
        if (step.kind == OrderKind::passed) {
          const auto mark = marked.find({step.stream, step.marker});
          if (mark != marked.end()) know(step.stream, mark->second, step.time_us);
        }
      },
      [&](const LogEvent& event) {
        ++position;
        if (event.device != device || event.block == LogEvent::kNoBlock) return;
        seen.insert(event.stream);
        if (event.kind == EventKind::free_requested) freed[event.block] = {event.stream, position};
        if (event.kind != EventKind::free_completed) return;
        const auto free = freed.find(event.block);
        if (free != freed.end()) know(free->second.first, free->second.second, event.time_us);
      });
}

std::optional<std::int64_t> KnownCompletions::time_us(std::uint32_t stream,
                                                      std::size_t position) const {
  const auto of_stream = streams_.find(stream);
  if (of_stream == streams_.end()) return std::nullopt;
  const auto known = std::ranges::lower_bound(of_stream->second, position, {}, &Known::until);
  return known == of_stream->second.end() ? std::nullopt : std::optional{known->time_us};
}

}  // namespace millrace
