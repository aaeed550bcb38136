#include "memory/pending_frees.hpp"

#include <algorithm>

#include "ordering/steps.hpp"

namespace millrace {
namespace {

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

PendingFrees::Awaited* PendingFrees::find(StreamId stream) const noexcept {
  if (stream.slot >= by_slot_.size()) return nullptr;
  Awaited* known = by_slot_[stream.slot].get();
  while (known != nullptr && known->queue.stream() != stream) known = known->next_of_slot.get();
  return known;
}

PendingFrees::Awaited& PendingFrees::awaited(StreamId stream) {
  if (Awaited* const known = find(stream)) return *known;
  if (by_slot_.size() <= stream.slot) by_slot_.resize(stream.slot + std::size_t{1});
  if (spare_.empty()) spare_.push_back(std::make_unique<Awaited>(stream, memory_));
  streams_.push_back(spare_.back().get());
  std::unique_ptr<Awaited> made = std::move(spare_.back());
  spare_.pop_back();
  made->queue.serve(nullptr, stream, BlockWaits::for_all);
  made->place = streams_.size() - 1;
  made->next_of_slot = std::move(by_slot_[stream.slot]);
  by_slot_[stream.slot] = std::move(made);
  ++idle_;
  return *streams_.back();
}

void PendingFrees::forget(const Block& block) {
  --size_;
  bytes_ -= block.bytes;
  for (const Point point : block.points) {
    Awaited& stream = *find(point.stream);
    if (--stream.blocks > 0) continue;
    if (++idle_ > kMostIdle) retire(stream);
  }
}

void PendingFrees::retire(const Awaited& idle) {
  --idle_;
  streams_.back()->place = idle.place;
  streams_[idle.place] = streams_.back();
  streams_.pop_back();
  std::unique_ptr<Awaited>* link = &by_slot_[idle.queue.stream().slot];
  while (link->get() != &idle) link = &(*link)->next_of_slot;
  std::unique_ptr<Awaited> taken = std::move(*link);
  *link = std::move(taken->next_of_slot);
  if (spare_.size() < kMostSpare) spare_.push_back(std::move(taken));
}

bool PendingFrees::enqueue(Block* block) {
  for (const Point point : block->points) {
    if (point.stream == block->lane || ledger_.completed(point)) continue;
    find(point.stream)->queue.insert(block, point.marker);
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
