#include "memory/shelves.hpp"

#include <algorithm>
#include <utility>

namespace millrace {

// Host memory is written by the host, which no stream is ordered before.
bool Shelves::passed(Point point, StreamId user) const {
  if (sharing_ == Sharing::completed) return ledger_.completed(point);
  return (point.stream == user && ledger_.is_open(user)) || ledger_.ordered(point, user);
}

bool Shelves::ready(const Block& block, StreamId user) const {
  return missing(block, user) == nullptr;
}

// The first point that `user` would have to wait for.
const Point* Shelves::missing(const Block& block, StreamId user) const {
  for (const Point& point : block.points) {
    if (!passed(point, user)) return &point;
  }
  return nullptr;
}

Lane* Shelves::find_elsewhere(StreamId stream) noexcept {
  if (!stream.valid()) return &nobodys_;
  const auto it = former_.find(stream);
  return it == former_.end() ? nullptr : it->second.get();
}

const Lane* Shelves::find(StreamId stream) const noexcept {
  return const_cast<Shelves*>(this)->find(stream);
}

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
  const bool drains = block->waits == Waits::for_all;
  if (shelf.ready.contains(block) == drains || shelf.draining.contains(block) != drains)
    return false;
  if (sharing_ == Sharing::own_stream) return true;
  const bool complete = block->waits == Waits::nothing && lane->stream.valid();
  return complete_[pool].contains(block) == complete &&
         (block->queue == nullptr) == (block->waits == Waits::nothing);
}

void Shelves::put(Block* block) {
  Lane& lane = this->lane(block->lane);
  block->lane = lane.stream;
  const bool small = block->segment->small;
  block->state = BlockState::free;
  block->segment->free_bytes += block->bytes;
  ++blocks_;
  if (sharing_ == Sharing::own_stream) {
    block->waits = Waits::for_others;
    lane.shelf(small).ready.insert(block);
    return;
  }
  block->points.erase_if([&](const Point point) { return ledger_.completed(point); });
  if (const Point* const point = missing(*block, lane.stream)) {
    block->waits = Waits::for_all;
    lane.shelf(small).draining.insert(block);
    enqueue(lane, block, *point, Waits::for_all);
    return;
  }
  lane.shelf(small).ready.insert(block);
  wait_for_others(lane, block);
}

// The block is ready for its lane: complete, or in a queue of what is not.
void Shelves::wait_for_others(Lane& lane, Block* block) {
  if (block->points.empty()) {
    block->waits = Waits::nothing;
    if (lane.stream.valid()) complete_[block->segment->small ? 1 : 0].insert(block);
    return;
  }
  block->waits = Waits::for_others;
  enqueue(lane, block, *block->points.begin(), Waits::for_others);
}

void Shelves::claim(Block* block) {
  Lane& lane = *find(block->lane);
  const bool small = block->segment->small;
  Shelf& shelf = lane.shelf(small);
  (block->waits == Waits::for_all ? shelf.draining : shelf.ready).erase(block);
  if (block->queue != nullptr) dequeue(block);
  const bool complete = block->waits == Waits::nothing && lane.stream.valid();
  if (complete && sharing_ != Sharing::own_stream) complete_[small ? 1 : 0].erase(block);
  block->state = BlockState::claimed;
  block->segment->free_bytes -= block->bytes;
  --blocks_;
}

std::unique_ptr<WaitQueue>& Shelves::queue_of(Lane& lane, StreamId stream, Waits kind) {
  if (kind == Waits::for_others && stream == lane.stream) return lane.own;
  return lane.queues[{stream, kind}];
}

void Shelves::enqueue(Lane& lane, Block* block, Point point, Waits kind) {
  std::unique_ptr<WaitQueue>& queue = queue_of(lane, point.stream, kind);
  if (queue == nullptr) {
    queue = std::make_unique<WaitQueue>(&lane, point.stream, kind, memory_);
  }
  if (queue->empty()) {
    const std::uint32_t slot = point.stream.slot;
    if (on_stream_.size() <= slot) on_stream_.resize(slot + std::size_t{1});
    queue->place_among_kind = of_kind(kind).size();
    queue->place_on_stream = on_stream_[slot].size();
    of_kind(kind).push_back(queue.get());
    on_stream_[slot].push_back(queue.get());
  }
  queue->insert(block, point.marker);
}

void Shelves::dequeue(Block* block) {
  WaitQueue& queue = *block->queue;
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
  if (&queue != lane.own.get()) lane.queues.erase({queue.stream(), queue.kind()});
}

// Takes out of the queue what waits for nothing more there, as `user` sees it; the host, if none.
void Shelves::pop_passed(WaitQueue* queue, StreamId user, std::vector<Block*>& out) {
  for (bool emptied = false; !emptied;) {
    const Point point = queue->front_point();
    if (user.valid() ? !passed(point, user) : !ledger_.completed(point)) return;
    Block* const block = queue->front();
    emptied = queue->holds_one();
    dequeue(block);
    out.push_back(block);
  }
}

std::vector<Block*> Shelves::drained() {
  std::vector<Block*> passed, result;
  const Queues queues = of_kind(Waits::for_all);
  for (WaitQueue* const queue : queues) {
    Lane& lane = *queue->lane();
    passed.clear();
    pop_passed(queue, lane.stream, passed);
    for (Block* const block : passed) {
      if (const Point* const point = missing(*block, lane.stream)) {
        enqueue(lane, block, *point, Waits::for_all);
      } else {
        claim(block);
        result.push_back(block);
      }
    }
  }
  return result;
}

void Shelves::settle() {
  progressed_.clear();
  if (!ledger_.completed_since(settled_, progressed_)) {
    const Queues queues = of_kind(Waits::for_others);
    for (WaitQueue* const queue : queues) settle(queue);
    return;
  }
  for (const StreamId stream : progressed_) {
    if (stream.slot >= on_stream_.size()) continue;
    const Queues queues = on_stream_[stream.slot];
    for (WaitQueue* const queue : queues) {
      if (queue->kind() == Waits::for_others && !queue->empty()) settle(queue);
    }
  }
}

void Shelves::settle(WaitQueue* queue) {
  Lane& lane = *queue->lane();
  std::vector<Block*> passed;
  pop_passed(queue, {}, passed);
  for (Block* const block : passed) {
    block->points.erase_if([&](const Point point) { return ledger_.completed(point); });
    wait_for_others(lane, block);
  }
}

std::vector<Lane*> Shelves::waiting_for(const std::vector<StreamId>& streams, const Lane* but,
                                        std::size_t most) {
  std::vector<Lane*> result;
  ++visits_;
  const auto add = [&](Lane* lane) {
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

std::vector<Lane*> Shelves::waiting(std::size_t most) {
  std::vector<Lane*> result;
  ++visits_;
  for (const Queues& queues : by_kind_) {
    for (WaitQueue* const queue : queues) {
      if (result.size() == most) return result;
      Lane* const lane = queue->lane();
      if (std::exchange(lane->visited, visits_) != visits_) result.push_back(lane);
    }
  }
  return result;
}

}  // namespace millrace
