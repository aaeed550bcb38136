#include "observe/replay/replay_order.hpp"

namespace millrace {

using trace::LoggedOrder;
using trace::OrderKind;

void ReplayOrder::await(std::uint32_t block, StreamRef stream) {
  std::vector<Point>& points = awaited_[block];
  points.push_back(ordered_.mark(stream));
  const auto uses = uses_.find(block);
  if (uses == uses_.end()) return;
  for (const StreamRef use : uses->second) {
    if (use.handle().value != stream.handle().value) points.push_back(ordered_.mark(use));
  }
  uses_.erase(uses);
}

void ReplayOrder::complete(std::uint32_t block) {
  const auto it = awaited_.find(block);
  if (it == awaited_.end()) return;
  for (const Point point : it->second) ordered_.synchronize(point);
  awaited_.erase(it);
}

// No step belongs to a stream that the driver does not know, because nothing can be recorded there.
void ReplayOrder::apply(const LoggedOrder& step) {
  if (step.kind == OrderKind::passed_device) return ordered_.synchronize();
  if (log_.streams[step.stream].for_all) return;
  const StreamRef stream = lanes_.of_stream(step.stream);
  switch (step.kind) {
    case OrderKind::marked:
      marks_.put(step.stream, step.marker, ordered_.mark(stream));
      return;
    case OrderKind::waited:
      if (const Point* const mark = marks_.covering(step.other, step.marker))
        ordered_.wait_for(stream, *mark);
      return;
    case OrderKind::passed:
      if (const Point* const mark = marks_.covering(step.stream, step.marker))
        ordered_.synchronize(*mark);
      return;
    case OrderKind::passed_stream:
      return ordered_.synchronize(stream);
    case OrderKind::closed:
      ordered_.mark(stream);  // the last marker of a stream that is destroyed
      return;
    case OrderKind::passed_device:
    case OrderKind::used:
    case OrderKind::transferred:
    case OrderKind::not_passed:
    case OrderKind::stream_not_passed:
    case OrderKind::pool_keeps:
    case OrderKind::pool_trimmed:
      return;
  }
}

}  // namespace millrace
