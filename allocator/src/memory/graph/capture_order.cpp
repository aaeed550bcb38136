#include "memory/graph/capture_order.hpp"

#include <algorithm>

namespace millrace {

StreamRef CaptureOrder::join(StreamRef stream) {
  const std::lock_guard lock{mutex_};
  const auto known = std::ranges::find_if(streams_, [&](const Joined& joined) {
    return !joined.takes_part && joined.outer.id() == stream.id();
  });
  if (known != streams_.end()) {
    known->takes_part = true;
    return known->inner;
  }
  // Room first, so the list does not throw once the stream is attached.
  streams_.reserve(streams_.size() + 1);
  const StreamHandle handle{reinterpret_cast<void*>(next_handle_++)};
  return streams_.emplace_back(stream, device_.attach(handle), true).inner;
}

std::optional<StreamRef> CaptureOrder::find(StreamId stream) const {
  const std::lock_guard lock{mutex_};
  for (const Joined& joined : streams_) {
    if (joined.takes_part && joined.outer.id() == stream) return joined.inner;
  }
  return {};
}

bool CaptureOrder::has(StreamRef stream) const {
  const std::lock_guard lock{mutex_};
  return std::ranges::any_of(streams_, [&](const Joined& joined) {
    return joined.takes_part && joined.outer.handle() == stream.handle();
  });
}

void CaptureOrder::end() {
  {
    const std::lock_guard lock{mutex_};
    for (Joined& joined : streams_) joined.takes_part = false;
  }
  captured_.set_capturing(false);
  if (!remembers_) forget_former();
  // Outside of captures `CaptureDevice` has no work, so this completes all that the capture freed.
  device_.synchronize();
}

void CaptureOrder::forget_former() {
  const std::lock_guard lock{mutex_};
  while (!streams_.empty()) {
    device_.detach(streams_.back().inner);
    streams_.pop_back();
  }
}

}  // namespace millrace
