#include "observe/replay/recorded_retry.hpp"

#include <iterator>

namespace millrace {

using trace::EventKind;
using trace::LogEvent;

bool RecordedRetry::keeps(const LogEvent& completed) {
  if (end_ == nullptr || &completed >= end_) read_stretch(completed);
  if (!retried_) return false;
  // A segment is released only if its blocks are free, and they go with it.
  const auto after = released_.upper_bound(completed.address);
  return after == released_.begin() || std::prev(after)->second <= completed.address;
}

void RecordedRetry::read_stretch(const LogEvent& first) {
  released_.clear();
  retried_ = false;
  const LogEvent* const log_end = log_.events.data() + log_.events.size();
  for (end_ = &first; end_ != log_end; ++end_) {
    if (end_->device != device_) continue;
    if (end_->kind == EventKind::segment_free) {
      released_[end_->address] = end_->address + end_->bytes;
    } else if (end_->kind == EventKind::segment_alloc) {
      retried_ = !released_.empty();
    } else if (end_->kind != EventKind::free_completed) {
      retried_ = retried_ && end_->kind == EventKind::allocate;
      return;
    }
  }
  retried_ = false;
}

}  // namespace millrace
