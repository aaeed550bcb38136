#include "memory/graph/capture_order.hpp"

#include <algorithm>

namespace millrace {

StreamRef CaptureOrder::join(StreamRef stream) {
  const std::lock_guard lock{mutex_};
  const auto known = std::ranges::find_if(
      former_, [&](const auto& former) { return former.first.id() == stream.id(); });
  if (known != former_.end()) {
    streams_.push_back(*known);
    former_.erase(known);
  } else {
    const StreamHandle handle{reinterpret_cast<void*>(next_handle_++)};
    streams_.emplace_back(stream, device_.attach(handle));
  }
  return streams_.back().second;
}

std::optional<StreamRef> CaptureOrder::find(StreamId stream) const {
  const std::lock_guard lock{mutex_};
  for (const auto& [outer, inner] : streams_) {
    if (outer.id() == stream) return inner;
  }
  return {};
}

bool CaptureOrder::has(StreamRef stream) const {
  const std::lock_guard lock{mutex_};
  return std::ranges::any_of(
      streams_, [&](const auto& known) { return known.first.handle() == stream.handle(); });
}

std::vector<StreamRef> CaptureOrder::end() {
  std::vector<StreamRef> streams;
  {
    const std::lock_guard lock{mutex_};
    for (const auto& [outer, inner] : streams_) {
      streams.push_back(outer);
      if (remembers_) {
        former_.emplace_back(outer, inner);
      } else {
        device_.detach(inner);
      }
    }
    streams_.clear();
  }
  captured_.set_capturing(false);
  device_.synchronize();
  return streams;
}

}  // namespace millrace
