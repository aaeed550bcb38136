#include "memory/wait_queue.hpp"

namespace millrace {

void WaitQueue::insert(Block* block, Marker marker) {
  ordering::count_steps(1);
  if (marker > newest_.marker) {
    if (newest_.first != nullptr) older_.emplace_hint(older_.end(), newest_.marker, newest_.first);
    newest_ = {.marker = marker, .first = nullptr};
  }
  Block*& first =
      marker == newest_.marker ? newest_.first : older_.try_emplace(marker, nullptr).first->second;
  bytes_ += block->bytes;
  block->free.queue = this;
  block->free.queue_previous() = nullptr;
  block->free.queue_next() = first;
  if (first != nullptr) first->free.queue_previous() = block;
  first = block;
}

// A block that is not the first of its group needs no search for the group: it is unlinked alone.
void WaitQueue::erase(Block* block) {
  ordering::count_steps(1);
  bytes_ -= block->bytes;
  Block *const before = block->free.queue_previous(), *const behind = block->free.queue_next();
  if (behind != nullptr) behind->free.queue_previous() = before;
  block->free.queue = nullptr;
  if (before != nullptr) {
    before->free.queue_next() = behind;
    return;
  }
  const Marker marker = block->points.on(stream_);
  if (marker == newest_.marker) {
    newest_.first = behind;
  } else if (const auto group = older_.find(marker); behind != nullptr) {
    group->second = behind;
  } else {
    older_.erase(group);
  }
}

}  // namespace millrace
