#include "memory/pending_frees.hpp"

#include <algorithm>

namespace millrace {

void PendingFrees::insert(Block* block) {
  block->free = {};
  block->free.turn = ++turns_;
  ++size_;
  if (!enqueue(block)) done_.push_back(block);
}

bool PendingFrees::enqueue(Block* block) {
  for (const Point point : block->points) {
    if (point.stream == block->lane || ledger_.completed(point)) continue;
    enqueue(block, point);
    return true;
  }
  return false;
}

void PendingFrees::enqueue(Block* block, Point point) {
  std::unique_ptr<WaitQueue>& queue = queues_[point.stream];
  if (queue == nullptr) {
    queue = std::make_unique<WaitQueue>(nullptr, point.stream, Waits::for_all, memory_);
  }
  queue->insert(block, point.marker);
}

std::vector<Block*> PendingFrees::completed() {
  std::vector<Block*> passed, result;
  result.swap(done_);
  for (auto it = queues_.begin(); it != queues_.end();) {
    WaitQueue& queue = *it->second;
    while (!queue.empty() && ledger_.completed(queue.front_point())) {
      passed.push_back(queue.front());
      queue.erase(queue.front());
    }
    it = queue.empty() ? queues_.erase(it) : std::next(it);
  }
  for (Block* const block : passed) {
    if (!enqueue(block)) result.push_back(block);
  }
  size_ -= result.size();
  std::ranges::sort(result, {}, [](const Block* block) { return block->free.turn; });
  return result;
}

PointSet PendingFrees::points() const {
  PointSet all;
  for (const Block* const block : done_) all.join(block->points);
  for (const auto& [stream, queue] : queues_) {
    queue->visit([&](const Block& block) { all.join(block.points); });
  }
  return all;
}

}  // namespace millrace
