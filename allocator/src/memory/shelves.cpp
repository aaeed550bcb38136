#include "memory/shelves.hpp"

#include <algorithm>
#include <utility>

#include "ordering/steps.hpp"

namespace millrace {
namespace {

constexpr std::size_t kSpareQueues = 64;

}  // namespace

// The host writes pinned memory (Sharing::completed), and the host is ordered only after complete
// work.
bool Shelves::passed(Point point, StreamId user) const {
  if (sharing_ == Sharing::completed) return ledger_.completed(point);
  return (point.stream == user && ledger_.is_open(user)) || ledger_.ordered(point, user);
}

const Point* Shelves::missing(const Block& block, StreamId user) const {
  for (const Point& point : block.points) {
    ordering::count_steps(1);
    if (!passed(point, user)) return &point;
  }
  return nullptr;
}

Lane* Shelves::find_former(StreamId stream) noexcept {
  const auto it = former_.find(stream);
  return it == former_.end() ? nullptr : it->second.get();
}

const Lane* Shelves::find(StreamId stream) const noexcept {
  return const_cast<Shelves*>(this)->find(stream);
}

// A lane with blocks moves to `former_` when a later stream gets its slot. A slot is used again
// only once all work of its stream is complete.
Lane& Shelves::lane(StreamId stream) {
  if (Lane* const known = find(stream)) return *known;
  if (lanes_.size() <= stream.slot) lanes_.resize(stream.slot + std::size_t{1});
  std::unique_ptr<Lane>& lane = lanes_[stream.slot];
  if (lane != nullptr && lane->stream.generation > stream.generation) return nobodys_;
  if (lane != nullptr && lane->blocks() > 0) former_[lane->stream] = std::move(lane);
  lane = std::make_unique<Lane>(stream);
  return *lane;
}

bool Shelves::holds(const Block* block) const {
  const Lane* const lane = find(block->lane);
  if (lane == nullptr) return false;
  const std::size_t pool = block->segment->small ? 1 : 0;
  const Shelf& shelf = lane->shelves[pool];
  const bool drains = block->waits == BlockWaits::for_all;
  if (shelf.ready.contains(block) == drains || shelf.draining.contains(block) != drains)
    return false;
  if (sharing_ == Sharing::own_stream) return true;
  const bool complete = block->waits == BlockWaits::nothing && lane->stream.valid();
  return complete_[pool].contains(block) == complete &&
         (block->free.queue == nullptr) ==
             (block->waits == BlockWaits::nothing || block->waits == BlockWaits::unlisted);
}

void Shelves::put(Block* block, const Point* missing) {
  Lane& lane = this->lane(block->lane);
  block->lane = lane.stream;
  block->free = {};
  block->run = 0;
  const bool small = block->segment->small;
  block->state = BlockState::free;
  free_segments_.freed(*block);
  ++blocks_;
  if (sharing_ == Sharing::own_stream) {
    block->waits = BlockWaits::for_others;
    lane.shelf(small).ready.insert(block);
    return;
  }
  if (missing != nullptr) {
    block->waits = BlockWaits::for_all;
    lane.shelf(small).draining.insert(block);
    enqueue(lane, block, *missing, BlockWaits::for_all);
    return;
  }
  lane.shelf(small).ready.insert(block);
  if (sharing_ != Sharing::completed && lane.stream.valid()) return put_unlisted(lane, block);
  wait_for_others(lane, block);
}

void Shelves::put_unlisted(Lane& lane, Block* block) {
  block->waits = BlockWaits::unlisted;
  if (lane.unlisted.size() == 0) {
    lane.place_among_unlisted = with_unlisted_.size();
    with_unlisted_.push_back(&lane);
  }
  lane.unlisted.push(block);
}

void Shelves::take_unlisted(Lane& lane, Block* block) {
  lane.unlisted.erase(block);
  if (lane.unlisted.size() > 0) return;
  Lane* const last = with_unlisted_.back();
  with_unlisted_[lane.place_among_unlisted] = last;
  last->place_among_unlisted = lane.place_among_unlisted;
  with_unlisted_.pop_back();
}

Block* Shelves::list_oldest(Lane& lane) {
  Block* const block = lane.unlisted.oldest();
  take_unlisted(lane, block);
  wait_for_others(lane, block);
  return block;
}

// Puts a block that is ready for its lane among the complete blocks, or into the queue for its
// first point that is not complete.
void Shelves::wait_for_others(Lane& lane, Block* block) {
  block->points.erase_if([&](const Point point) { return ledger_.completed(point); });
  if (block->points.empty()) {
    block->waits = BlockWaits::nothing;
    if (lane.stream.valid()) complete_[block->segment->small ? 1 : 0].insert(block);
    return;
  }
  block->waits = BlockWaits::for_others;
  enqueue(lane, block, *block->points.begin(), BlockWaits::for_others);
}

void Shelves::claim(Block* block) {
  Lane& lane = *find(block->lane);
  const bool small = block->segment->small;
  Shelf& shelf = lane.shelf(small);
  (block->waits == BlockWaits::for_all ? shelf.draining : shelf.ready).erase(block);
  if (sharing_ == Sharing::own_stream) {  // the block is in no other index
  } else if (block->waits == BlockWaits::unlisted) {
    take_unlisted(lane, block);
  } else if (block->free.queue != nullptr) {
    dequeue(block);
  } else if (block->waits == BlockWaits::nothing && lane.stream.valid()) {
    complete_[small ? 1 : 0].erase(block);
  }
  block->state = BlockState::claimed;
  free_segments_.claimed(*block);
  --blocks_;
}

WaitQueue& Shelves::queue_of(Lane& lane, StreamId stream, BlockWaits kind) {
  const auto make = [&] { return std::make_unique<WaitQueue>(&lane, stream, kind, memory_); };
  if (kind == BlockWaits::for_others && stream == lane.stream) {
    if (lane.own == nullptr) lane.own = make();
    return *lane.own;
  }
  const std::pair key{stream, kind};
  if (const auto known = lane.queues.find(key); known != lane.queues.end()) return *known->second;
  if (spare_queues_.empty()) return *lane.queues.emplace(key, make()).first->second;
  auto node = std::move(spare_queues_.back());
  spare_queues_.pop_back();
  node.key() = key;
  node.mapped()->serve(&lane, stream, kind);
  return *lane.queues.insert(std::move(node)).position->second;
}

// A block with several points is in one queue at a time. It cannot be used before all points have
// passed, so it can wait for them one after the other. Therefore a free costs one insertion for any
// number of points, and a block needs the links of only one list.
void Shelves::enqueue(Lane& lane, Block* block, Point point, BlockWaits kind) {
  WaitQueue* const queue = &queue_of(lane, point.stream, kind);
  if (queue->empty()) {
    const std::uint32_t slot = point.stream.slot;
    if (on_stream_.size() <= slot) on_stream_.resize(slot + std::size_t{1});
    queue->place_among_kind = of_kind(kind).size();
    queue->place_on_stream = on_stream_[slot].size();
    of_kind(kind).push_back(queue);
    on_stream_[slot].push_back(queue);
  }
  queue->insert(block, point.marker);
}

void Shelves::dequeue(Block* block) {
  WaitQueue& queue = *block->free.queue;
  queue.erase(block);
  if (!queue.empty()) return;
  const auto take_out = [](Queues& queues, std::size_t WaitQueue::*place, const WaitQueue& gone) {
    queues.back()->*place = gone.*place;
    queues[gone.*place] = queues.back();
    queues.pop_back();
  };
  take_out(of_kind(queue.kind()), &WaitQueue::place_among_kind, queue);
  take_out(on_stream_[queue.stream().slot], &WaitQueue::place_on_stream, queue);
  Lane& lane = *queue.lane();
  if (&queue == lane.own.get()) return;
  // If other streams use the blocks of a loop, nearly every free makes a queue and empties it soon
  // after. The map's node and its queue are kept, so the next queue allocates no host memory.
  auto node = lane.queues.extract({queue.stream(), queue.kind()});
  if (spare_queues_.size() < kSpareQueues) spare_queues_.push_back(std::move(node));
}

// Removes the blocks whose point has passed for `user` (for the host if `user` is invalid). Puts
// them into `passed_`.
void Shelves::pop_passed(WaitQueue* queue, StreamId user) {
  passed_.clear();
  for (bool emptied = false; !emptied;) {
    const Point point = queue->front_point();
    if (user.valid() ? !passed(point, user) : !ledger_.completed(point)) return;
    ordering::count_steps(1);
    Block* const block = queue->front();
    emptied = queue->holds_one();
    dequeue(block);
    passed_.push_back(block);
  }
}

const std::vector<Block*>& Shelves::drained() {
  drained_.clear();
  looked_at_ = of_kind(BlockWaits::for_all);
  ordering::count_steps(looked_at_.size());
  for (WaitQueue* const queue : looked_at_) {
    Lane& lane = *queue->lane();
    pop_passed(queue, lane.stream);
    for (Block* const block : passed_) {
      if (const Point* const point = missing(*block, lane.stream)) {
        enqueue(lane, block, *point, BlockWaits::for_all);
      } else {
        claim(block);
        drained_.push_back(block);
      }
    }
  }
  return drained_;
}

// Only queues for streams that made progress can have complete blocks. So the cost depends on the
// progress since the last call and not on the number of queues. If the ledger's list of these
// streams was overwritten, the front of each queue is checked.
void Shelves::settle() {
  progressed_.clear();
  if (!ledger_.completed_since(settled_, progressed_)) {
    looked_at_ = of_kind(BlockWaits::for_others);
    ordering::count_steps(looked_at_.size());
    for (WaitQueue* const queue : looked_at_) settle(queue);
    return;
  }
  for (const StreamId stream : progressed_) {
    if (stream.slot >= on_stream_.size()) continue;
    looked_at_ = on_stream_[stream.slot];
    ordering::count_steps(looked_at_.size());
    for (WaitQueue* const queue : looked_at_) {
      if (queue->kind() == BlockWaits::for_others && !queue->empty()) settle(queue);
    }
  }
}

void Shelves::settle(WaitQueue* queue) {
  Lane& lane = *queue->lane();
  pop_passed(queue, {});
  for (Block* const block : passed_) {
    wait_for_others(lane, block);
  }
}

void Shelves::visit_lanes(const std::function<bool(const Lane&)>& visit) const {
  if (!visit(nobodys_)) return;
  for (const auto& lane : lanes_) {
    ordering::count_steps(1);
    if (lane != nullptr && !visit(*lane)) return;
  }
  for (const auto& [stream, lane] : former_) {
    if (!visit(*lane)) return;
  }
}

void Shelves::visit_queues(const std::function<bool(const WaitQueue&)>& visit) const {
  for (const Queues& queues : by_kind_) {
    for (const WaitQueue* const queue : queues) {
      if (!visit(*queue)) return;
    }
  }
}

std::vector<Lane*> Shelves::waiting_for(const std::vector<StreamId>& streams, const Lane* but,
                                        std::size_t most) {
  std::vector<Lane*> result;
  ++visits_;
  const auto add = [&](Lane* lane) {
    ordering::count_steps(1);
    if (lane == nullptr || lane == but || result.size() == most) return;
    if (std::exchange(lane->visited, visits_) != visits_) result.push_back(lane);
  };
  for (const StreamId stream : streams) {
    add(find(stream));
    if (stream.slot >= on_stream_.size()) continue;
    for (WaitQueue* const queue : on_stream_[stream.slot]) {
      if (result.size() == most) return result;
      add(queue->lane());
    }
  }
  return result;
}

PointSet Shelves::newest_points(std::size_t most) const {
  PointSet result;
  for (const Queues& queues : by_kind_) {
    for (const WaitQueue* const queue : queues) {
      if (result.size() == most) return result;
      result.join(queue->newest_point());
    }
  }
  return result;
}

// Each call starts at another queue, spread over all queues by a hash, so that calls reach every
// queue sooner or later. (Queues also change their positions.)
std::vector<Shelves::Wait> Shelves::some_waits(std::size_t most) {
  const std::size_t others = by_kind_[0].size(), all = others + by_kind_[1].size();
  std::vector<Wait> result;
  if (all == 0) return result;
  result.reserve(std::min(most, all));
  std::size_t at = static_cast<std::size_t>(++looks_ * 0x9e3779b97f4a7c15 >> 32) % all;
  for (std::size_t i = 0; i < std::min(most, all); ++i, at = at + 1 == all ? 0 : at + 1) {
    ordering::count_steps(1);
    const WaitQueue& queue = at < others ? *by_kind_[0][at] : *by_kind_[1][at - others];
    result.push_back({queue.front_point(), queue.newest_point()});
  }
  return result;
}

std::vector<Lane*> Shelves::waiting(std::size_t most) {
  std::vector<Lane*> result;
  ++visits_;
  for (const Queues& queues : by_kind_) {
    for (WaitQueue* const queue : queues) {
      if (result.size() == most) return result;
      ordering::count_steps(1);
      Lane* const lane = queue->lane();
      if (std::exchange(lane->visited, visits_) != visits_) result.push_back(lane);
    }
  }
  return result;
}

}  // namespace millrace
