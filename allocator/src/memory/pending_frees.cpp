#include "memory/pending_frees.hpp"

#include <algorithm>

#include "ordering/steps.hpp"

namespace millrace {

void PendingFrees::insert(Block* block) {
  block->free = {};
  block->free.turn = ++turns_;
  ++size_;
  bytes_ += block->bytes;
  for (const Point point : block->points) {
    Last& last = last_[point.stream];
    last.marker = std::max(last.marker, point.marker);
    ++last.blocks;
  }
  if (!enqueue(block)) done_.push_back(block);
}

void PendingFrees::forget(const Block& block) {
  --size_;
  bytes_ -= block.bytes;
  for (const Point point : block.points) {
    const auto last = last_.find(point.stream);
    if (--last->second.blocks == 0) last_.erase(last);
  }
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
    queue = std::make_unique<WaitQueue>(nullptr, point.stream, BlockWaits::for_all, memory_);
  }
  queue->insert(block, point.marker);
}

std::vector<Block*> PendingFrees::completed() {
  std::vector<Block*> passed, result;
  result.swap(done_);
  for (auto it = queues_.begin(); it != queues_.end();) {
    ordering::count_steps(1);
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
  for (const Block* const block : result) forget(*block);
  std::ranges::sort(result, {}, [](const Block* block) { return block->free.turn; });
  return result;
}

PointSet PendingFrees::points() const {
  PointSet all;
  ordering::count_steps(last_.size());
  for (const auto& [stream, last] : last_) all.push_back({stream, last.marker});
  return all;
}

void PendingFrees::visit(const std::function<bool(const Block&)>& visit) const {
  for (const Block* const block : done_) {
    if (!visit(*block)) return;
  }
  for (const auto& [stream, queue] : queues_) {
    if (!queue->visit(visit)) return;
  }
}

}  // namespace millrace
