#include "memory/pending_frees.hpp"

#include <algorithm>

#include "ordering/steps.hpp"

namespace millrace {
namespace {

// For streams on which no block has a point: entries that stay in the table, and entries that are
// kept as spares for other streams.
constexpr std::size_t kMostIdle = 8, kMostSpare = 64;

}  // namespace

void PendingFrees::insert(Block* block) {
  block->free = {};
  block->free.turn = ++turns_;
  ++size_;
  bytes_ += block->bytes;
  for (const Point point : block->points) {
    Awaited& stream = awaited(point.stream);
    if (stream.blocks++ == 0) {
      stream.last = 0;
      --idle_;
    }
    stream.last = std::max(stream.last, point.marker);
  }
  if (!enqueue(block)) done_.push_back(block);
}

PendingFrees::Awaited& PendingFrees::awaited(StreamId stream) {
  if (const auto known = awaited_.find(stream); known != awaited_.end()) return known->second;
  if (streams_.size() == streams_.capacity()) streams_.reserve(2 * streams_.size() + kMostIdle);
  Awaited* made = nullptr;
  if (spare_.empty()) {
    made = &awaited_.try_emplace(stream, stream, memory_).first->second;
  } else {
    auto node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = stream;
    node.mapped().queue.serve(nullptr, stream, BlockWaits::for_all);
    made = &awaited_.insert(std::move(node)).position->second;
  }
  made->place = streams_.size();
  streams_.push_back(made);
  ++idle_;
  return *made;
}

void PendingFrees::forget(const Block& block) {
  --size_;
  bytes_ -= block.bytes;
  for (const Point point : block.points) {
    if (--awaited_.find(point.stream)->second.blocks > 0) continue;
    if (++idle_ > kMostIdle) retire(point.stream);
  }
}

void PendingFrees::retire(StreamId idle) {
  auto node = awaited_.extract(idle);
  --idle_;
  const std::size_t place = node.mapped().place;
  streams_.back()->place = place;
  streams_[place] = streams_.back();
  streams_.pop_back();
  if (spare_.size() < kMostSpare) spare_.push_back(std::move(node));
}

// A block waits for one point at a time, since it needs all of them to be complete. The point of
// its own lane does not count, because the stream's own order covers that work.
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
  for (Awaited* const stream : streams_) {
    WaitQueue& queue = stream->queue;
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
  ordering::count_steps(streams_.size());
  std::vector<Point> last;
  last.reserve(streams_.size());
  for (const Awaited* const stream : streams_) {
    if (stream->blocks > 0) last.push_back({stream->queue.stream(), stream->last});
  }
  std::ranges::sort(last, {}, &Point::stream);
  PointSet all;
  for (const Point point : last) all.push_back(point);
  return all;
}

void PendingFrees::visit(const std::function<bool(const Block&)>& visit) const {
  for (const Block* const block : done_) {
    if (!visit(*block)) return;
  }
  for (const Awaited* const stream : streams_) {
    if (!stream->queue.visit(visit)) return;
  }
}

}  // namespace millrace
