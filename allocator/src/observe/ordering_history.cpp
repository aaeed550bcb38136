#include "millrace/observe/ordering_history.hpp"

#include <algorithm>

namespace millrace {

template <typename NewSlot>
void OrderingHistory::Log::add(const Frontier& frontier, TracePosition position, NewSlot new_slot) {
  auto before = last_.begin();
  for (const Point point : frontier) {
    while (before != last_.end() && before->stream.slot < point.stream.slot) ++before;
    if (before != last_.end() && *before == point) continue;
    const auto [found, is_new] = steps_.try_emplace(point.stream.slot);
    if (is_new) new_slot(point.stream.slot);
    std::vector<Step>& steps = found->second;
    if (steps.empty() || steps.back().point < point) steps.push_back({position, point});
  }
  if (frontier != last_) last_ = frontier;
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
  streams_[stream].add(frontier, position,
                       [&](std::uint32_t slot) { observers_[slot].push_back(stream); });
}

void OrderingHistory::device_finished(const Frontier& completed, TracePosition position) {
  completed_.add(completed, position, [](std::uint32_t) {});
}

TracePosition OrderingHistory::ordered_from(Point point, StreamId stream) const {
  if (point.marker == 0) return 0;
  const auto found = streams_.find(stream);
  return found == streams_.end() ? kNever : found->second.from(point);
}

std::span<const StreamId> OrderingHistory::observers_of(std::uint32_t slot) const {
  const auto found = observers_.find(slot);
  if (found == observers_.end()) return {};
  return found->second;
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
