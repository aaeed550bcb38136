// Batches: many requests or frees share one poll, one turn of a front, and one lock.

#include <stdexcept>
#include <utility>

#include "memory/caching_state.hpp"
#include "memory/contract.hpp"

namespace millrace {

void CachingAllocator::allocate_batch(std::span<const std::size_t> sizes,
                                      std::span<void*> addresses, StreamRef stream, Tag tag) {
  State& state = *state_;
  if (state.stock.device.capturing() ||
      state.graphs.any()) {  // the pool of a graph may have to serve some requests
    return Allocator::allocate_batch(sizes, addresses, stream, tag);
  }
  stream = state.stock.device.resolve(stream);
  const Marker marker = require_open("allocate", state.stock.device, stream);
  const PlainRequest like{0, 0, stream, tag, marker};
  std::vector<Block*> blocks;
  blocks.reserve(sizes.size());
  try {
    const std::size_t served = state.stock.has_fronts ? state.quick.take(sizes, like, blocks) : 0;
    if (served < sizes.size()) state.serve(state.requests(sizes.subspan(served), like), blocks);
  } catch (...) {
    state.undo(blocks);
    throw;
  }
  auto block = blocks.begin();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    addresses[i] = sizes[i] == 0 ? nullptr : (*block++)->address;
  }
}

// Returns a request for each size that is not 0. Everything but the size is taken from `like`.
std::vector<Request> CachingAllocator::State::requests(std::span<const std::size_t> sizes,
                                                       const PlainRequest& like) {
  std::vector<Request> all;
  all.reserve(sizes.size());
  const StreamId lane = like.owner.id();
  Front* const front = stock.has_fronts ? stock.fronts.find(lane) : nullptr;
  for (const std::size_t bytes : sizes) {
    if (bytes == 0) continue;
    Request request{like, false, like.owner, lane, like.next};
    request.requested = request.bytes = bytes;
    request.front = front;
    round(request);
    all.push_back(request);
  }
  return all;
}

// Appends a block for each request to `blocks`. If it throws, `blocks` has those that were
// allocated by then, so that the caller can undo them.
void CachingAllocator::State::serve(const std::vector<Request>& requests,
                                    std::vector<Block*>& blocks) {
  if (requests.empty()) return;
  auto next = requests.begin();
  Lock lock = enter();
  if (!stock.meter.known(next->tag)) {
    throw std::invalid_argument{"allocate: this tag is not one of this allocator's"};
  }
  if (!completions.pending().empty()) completions.poll(lock);
  completions.sweep();
  for (; next != requests.end(); ++next) {
    Block* block = stock.has_fronts ? quick.take_alone(*next) : nullptr;
    if (block != nullptr) {
      static_cast<void>(report(block, next->lane));
    } else {
      if (next->front != nullptr) upkeep.look_further(*next->front, *next);
      bool is_own = false;
      block = find(*next, lock, is_own);
      hand_out(*next, block, is_own);
    }
    blocks.push_back(block);
  }
}

void CachingAllocator::State::undo(std::span<Block* const> blocks) {
  const Lock lock = enter();
  for (Block* const block : blocks) take_back_unused(block);
}

// Frees a block that no work has used since it was allocated. So the points that it had before the
// allocation are all that its next use must come after.
void CachingAllocator::State::take_back_unused(Block* block) {
  block->state = BlockState::claimed;
  freeing.take_back(block, std::exchange(block->points, {}));
}

void CachingAllocator::deallocate_batch(std::span<void* const> addresses, const StreamRef* stream) {
  State& state = *state_;
  if (state.stock.device.capturing() || state.graphs.any()) {
    return Allocator::deallocate_batch(addresses, stream);
  }
  StreamRef given{StreamHandle{}};
  if (stream != nullptr) given = state.stock.device.resolve(*stream);
  const StreamRef* const on = stream == nullptr ? nullptr : &given;
  if (state.stock.has_fronts) {
    if (auto left = state.quick.keep_batch(addresses, on)) return state.free_rest(*left, on);
  }
  Lock lock = state.enter();
  std::vector<Block*> blocks = state.allocations.claim(addresses);
  state.batch_freeing.free_on(blocks, on, lock);
}

// Frees the claimed blocks of a batch that their front did not keep.
void CachingAllocator::State::free_rest(std::span<Block*> left, const StreamRef* stream) {
  if (left.empty()) return;
  Lock lock = live_again_on_error(left, [&] { return enter(); });
  batch_freeing.free_on(left, stream, lock);
}

}  // namespace millrace
