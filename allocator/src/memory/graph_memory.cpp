#include <limits>

#include "memory/caching_state.hpp"
#include "millrace/memory/graph_pool.hpp"

// The memory that pools of CUDA graphs take from this allocator (graph/graph_memory.hpp).

namespace millrace {

GraphPool::GraphPool(CachingAllocator& allocator, HeldUntil until)
    : hold_(allocator.state_->graphs.make(until)) {}

// The request is for a nominal stream, which is ordered after complete work only. So it gets memory
// that a graph may use on whatever stream the graph will be launched.
void* CachingAllocator::State::take(std::size_t bytes, StreamRef pool, Effort effort) {
  const Marker next = stock.device.ledger().next(pool.id());
  Request request{{bytes, stock.policy.round(bytes), pool, {}, next}, false, pool, pool.id(), next};
  request.small = request.bytes <= stock.policy.small_limit;
  Lock lock = enter();
  request.tag = stock.meter.tag("graph pools");
  if (bytes > std::numeric_limits<std::ptrdiff_t>::max() - stock.policy.segment_multiple) {
    fail(request, lock);
  }
  upkeep.empty();
  free_blocks.merge_former_lanes();
  completions.sweep();
  Block* block = search.find_complete(request);
  if (block == nullptr && effort != Effort::quiet) {
    completions.poll(lock);
    block = search.find_complete(request);
  }
  if (block == nullptr) block = growth.grow(request, lock);
  if (block == nullptr && effort == Effort::pressed) block = reclaim(request, lock);
  if (block == nullptr) return nullptr;
  if (stock.lanes_mix &&
      block->bytes - request.bytes >= stock.policy.granule) {  // pools keep blocks long: no slack
    free_blocks.put(stock.heap.split(block, request.bytes));
  }
  hand_out(request, block, false);
  allocations.use_record_of(*block);  // no front keeps a block that has a use record
  graphs.hide(block->address);
  return block->address;
}

void CachingAllocator::State::give_back(void* base, const PointSet& points) {
  PointSet after;
  after.assign(points);
  const Lock lock = enter();
  Block* const block = stock.heap.live().find(base);
  graphs.show(base);
  block->state = BlockState::claimed;
  freeing.take_back(block, std::move(after));
}

void CachingAllocator::State::close_front(StreamId stream) {
  const Lock lock = enter();
  upkeep.close(stream);
}

}  // namespace millrace
