#include "memory/pending_frees.hpp"

#include <algorithm>

#include "ordering/steps.hpp"

namespace millrace {
namespace {

// For streams on which no block waits: entries that stay in the table, and entries that are
// kept as spares for other streams.
constexpr std::size_t kMostIdle = 8, kMostSpare = 64;

}  // namespace

PendingFrees::PendingFrees(const Ledger& ledger) : ledger_(ledger) { spare_.reserve(kMostSpare); }

void PendingFrees::insert(Block* block) {
  make_room();
  block->free = {};
  block->free.turn = turns_ + 1;
  Awaited* first = nullptr;  // the stream of the first point that is not complete
  Marker marker = 0;
  bool waits_further = false;
  for (const Point point : block->points) {
    if (point.stream == block->lane) continue;
    if (first != nullptr) {
      waits_further = true;
      static_cast<void>(awaited(point.stream));  // now, so that `wait_later` cannot fail
    } else if (!ledger_.completed(point)) {
      first = &awaited(point.stream);
      marker = point.marker;
    }
  }
  if (first == nullptr) {
    done_.push_back(block);
  } else {
    first->queue.insert(block, marker);
    if (waits_further) wait_later(*block, first->queue.stream());
  }
  ++turns_;
  ++size_;
  bytes_ += block->bytes;
}

// Makes room for one more block now, so that `completed` cannot lose a block for want of memory.
void PendingFrees::make_room() {
  const std::size_t most = size_ + 1;
  if (passed_.capacity() < most) passed_.reserve(2 * most);
  if (done_.capacity() < most) done_.reserve(2 * most);
}

void PendingFrees::wait_later(const Block& block, StreamId first) {
  for (const Point point : block.points) {
    if (point.stream <= first || point.stream == block.lane) continue;
    Awaited& stream = awaited(point.stream);
    stream.last_later = std::max(stream.later == 0 ? 0 : stream.last_later, point.marker);
    ++stream.later;
  }
}

PendingFrees::Awaited& PendingFrees::make_awaited(StreamId stream) {
  if (const auto known = awaited_.find(stream); known != awaited_.end()) {
    return *(recent(stream) = &known->second);
  }
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
  return *(recent(stream) = made);
}

void PendingFrees::retire_idle() {
  ordering::count_steps(streams_.size());
  std::size_t idle = 0;
  for (std::size_t i = streams_.size(); i-- > 0;) {
    if (streams_[i]->idle() && ++idle > kMostIdle) retire(*streams_[i]);
  }
}

void PendingFrees::retire(Awaited& idle) {
  const StreamId stream = idle.queue.stream();
  if (recent(stream) == &idle) recent(stream) = nullptr;
  streams_.back()->place = idle.place;
  streams_[idle.place] = streams_.back();
  streams_.pop_back();
  auto node = awaited_.extract(stream);
  if (spare_.size() < kMostSpare) spare_.push_back(std::move(node));
}

// A block waits for one point at a time, since it needs all of them to be complete. The points are
// sorted by stream, and those up to the one that it waited for are complete.
bool PendingFrees::wait_further(Block* block, StreamId& waited_for) {
  for (const Point point : block->points) {
    if (point.stream <= waited_for || point.stream == block->lane) continue;
    Awaited& stream = awaited(point.stream);
    const bool is_complete = ledger_.completed(point);
    if (!is_complete) stream.queue.insert(block, point.marker);
    --stream.later;
    if (!is_complete) return true;
    waited_for = point.stream;
  }
  return false;
}

// If host memory runs out, the blocks stay in `passed_` and `done_`, and the next call goes on.
const std::vector<Block*>& PendingFrees::completed() {
  ordering::count_steps(streams_.size());
  for (Awaited* const stream : streams_) {
    WaitQueue& queue = stream->queue;
    if (queue.empty()) continue;
    while (!queue.empty() && ledger_.completed(queue.front_point())) {
      queue.take_front_group([&](Block* block) { passed_.push_back({block, queue.stream()}); });
    }
  }
  while (!passed_.empty()) {
    auto& [block, waited_for] = passed_.back();
    if (!wait_further(block, waited_for)) done_.push_back(block);
    passed_.pop_back();
  }
  if (streams_.size() > kMostIdle) retire_idle();
  completed_.assign(done_.begin(), done_.end());
  done_.clear();
  size_ -= completed_.size();
  for (const Block* const block : completed_) bytes_ -= block->bytes;
  if (completed_.size() > 1) {
    std::ranges::sort(completed_, {}, [](const Block* block) { return block->free.turn; });
  }
  return completed_;
}

// `done_` has room for them, since they came from there.
void PendingFrees::put_back(std::span<Block* const> blocks) noexcept {
  done_.insert(done_.end(), blocks.begin(), blocks.end());
  size_ += blocks.size();
  for (const Block* const block : blocks) bytes_ += block->bytes;
}

PointSet PendingFrees::points() const {
  ordering::count_steps(streams_.size());
  std::vector<Point> last;
  last.reserve(streams_.size());
  for (const Awaited* const stream : streams_) {
    if (stream->idle()) continue;
    const Marker newest = stream->queue.empty() ? 0 : stream->queue.newest_point().marker;
    const Marker later = stream->later == 0 ? 0 : stream->last_later;
    last.push_back({stream->queue.stream(), std::max(newest, later)});
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
  for (const auto& [block, waited_for] : passed_) {
    if (!visit(*block)) return;
  }
  for (const Awaited* const stream : streams_) {
    if (!stream->queue.visit(visit)) return;
  }
}

}  // namespace millrace
