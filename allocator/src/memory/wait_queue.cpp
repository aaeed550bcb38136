#include "memory/wait_queue.hpp"

namespace millrace {

void WaitQueue::insert(Block* block, Marker marker) {
  ordering::count_steps(1);
  bytes_ += block->bytes;
  if (marker > newest_.marker) {
    if (newest_.first != nullptr) older_.emplace_hint(older_.end(), newest_.marker, newest_.first);
    newest_ = {.marker = marker, .first = nullptr};
  }
  Block*& first =
      marker == newest_.marker ? newest_.first : older_.try_emplace(marker, nullptr).first->second;
  block->queue = this;
  block->marker = marker;
  block->queue_previous = nullptr;
  block->queue_next = first;
  if (first != nullptr) first->queue_previous = block;
  first = block;
}

void WaitQueue::erase(Block* block) {
  ordering::count_steps(1);
  bytes_ -= block->bytes;
  Block *const before = block->queue_previous, *const behind = block->queue_next;
  if (behind != nullptr) behind->queue_previous = before;
  block->queue = nullptr;
  if (before != nullptr) {
    before->queue_next = behind;
  } else if (block->marker == newest_.marker) {
    newest_.first = behind;
  } else if (const auto group = older_.find(block->marker); behind != nullptr) {
    group->second = behind;
  } else {
    older_.erase(group);
  }
}

}  // namespace millrace
