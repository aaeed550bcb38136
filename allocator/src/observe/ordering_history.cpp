#include "millrace/observe/ordering_history.hpp"

#include <algorithm>

namespace millrace {

void OrderingHistory::Log::add(const Frontier& frontier, TracePosition position) {
  if (frontier == last_) return;
  last_ = frontier;
  for (const Point point : frontier) {
    std::vector<Step>& steps = steps_[point.stream.slot];
    if (steps.empty() || steps.back().point < point) steps.push_back({position, point});
  }
}

TracePosition OrderingHistory::Log::from(Point point) const {
  const auto found = steps_.find(point.stream.slot);
  if (found == steps_.end()) return kNever;
  const std::vector<Step>& steps = found->second;
  const auto step = std::ranges::lower_bound(steps, point, {}, &Step::point);
  return step == steps.end() ? kNever : step->position;
}

void OrderingHistory::Log::discard_before(TracePosition position) {
  for (auto& [slot, steps] : steps_) {
    const auto later = std::ranges::upper_bound(steps, position, {}, &Step::position);
    if (later - steps.begin() > 1) steps.erase(steps.begin(), later - 1);
  }
}

std::size_t OrderingHistory::Log::size() const noexcept {
  std::size_t count = 0;
  for (const auto& [slot, steps] : steps_) count += steps.size();
  return count;
}

void OrderingHistory::stream_saw(StreamId stream, const Frontier& frontier,
                                 TracePosition position) {
  streams_[stream].add(frontier, position);
}

void OrderingHistory::device_finished(const Frontier& completed, TracePosition position) {
  completed_.add(completed, position);
}

TracePosition OrderingHistory::ordered_from(Point point, StreamId stream) const {
  if (point.marker == 0) return 0;
  const auto found = streams_.find(stream);
  return found == streams_.end() ? kNever : found->second.from(point);
}

TracePosition OrderingHistory::completed_from(Point point) const {
  return point.marker == 0 ? 0 : completed_.from(point);
}

void OrderingHistory::discard_before(TracePosition position) {
  completed_.discard_before(position);
  for (auto& [stream, log] : streams_) log.discard_before(position);
}

std::size_t OrderingHistory::size() const noexcept {
  std::size_t count = completed_.size();
  for (const auto& [stream, log] : streams_) count += log.size();
  return count;
}

}  // namespace millrace
