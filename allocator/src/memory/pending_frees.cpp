#include "memory/pending_frees.hpp"

#include <algorithm>

#include "ordering/steps.hpp"

namespace millrace {
namespace {

constexpr std::size_t kMostSpare = 64;

}  // namespace

void PendingFrees::insert(Block* block) {
  block->free = {};
  block->free.turn = ++turns_;
  ++size_;
  bytes_ += block->bytes;
  for (const Point point : block->points) {
    Awaited& stream = awaited(point.stream);
    stream.last = std::max(stream.last, point.marker);
    ++stream.blocks;
  }
  if (!enqueue(block)) done_.push_back(block);
}

PendingFrees::Awaited& PendingFrees::awaited(StreamId stream) {
  const auto known = streams_.find(stream);
  if (known != streams_.end()) return known->second;
  if (spare_.empty()) {
    return streams_.try_emplace(stream, stream, memory_).first->second;
  }
  auto node = std::move(spare_.back());
  spare_.pop_back();
  node.key() = stream;
  node.mapped().queue.serve(nullptr, stream, BlockWaits::for_all);
  node.mapped().last = 0;
  return streams_.insert(std::move(node)).position->second;
}

void PendingFrees::forget(const Block& block) {
  --size_;
  bytes_ -= block.bytes;
  for (const Point point : block.points) {
    const auto stream = streams_.find(point.stream);
    if (--stream->second.blocks > 0) continue;
    auto node = streams_.extract(stream);
    if (spare_.size() < kMostSpare) spare_.push_back(std::move(node));
  }
}

bool PendingFrees::enqueue(Block* block) {
  for (const Point point : block->points) {
    if (point.stream == block->lane || ledger_.completed(point)) continue;
    awaited(point.stream).queue.insert(block, point.marker);
    return true;
  }
  return false;
}

const std::vector<Block*>& PendingFrees::completed() {
  passed_.clear();
  completed_.clear();
  completed_.swap(done_);
  ordering::count_steps(streams_.size());
  for (auto& [id, stream] : streams_) {
    WaitQueue& queue = stream.queue;
    while (!queue.empty() && ledger_.completed(queue.front_point())) {
      passed_.push_back(queue.front());
      queue.erase(queue.front());
    }
  }
  for (Block* const block : passed_) {
    if (!enqueue(block)) completed_.push_back(block);
  }
  for (const Block* const block : completed_) forget(*block);
  std::ranges::sort(completed_, {}, [](const Block* block) { return block->free.turn; });
  return completed_;
}

PointSet PendingFrees::points() const {
  PointSet all;
  ordering::count_steps(streams_.size());
  for (const auto& [id, stream] : streams_) all.push_back({id, stream.last});
  return all;
}

void PendingFrees::visit(const std::function<bool(const Block&)>& visit) const {
  for (const Block* const block : done_) {
    if (!visit(*block)) return;
  }
  for (const auto& [id, stream] : streams_) {
    if (!stream.queue.visit(visit)) return;
  }
}

}  // namespace millrace
