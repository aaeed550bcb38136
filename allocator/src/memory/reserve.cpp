#include <algorithm>
#include <limits>

#include "memory/caching_state.hpp"
#include "memory/contract.hpp"
#include "millrace/round_up.hpp"

namespace millrace {

std::size_t CachingAllocator::reserve(std::size_t bytes, StreamRef stream) {
  if (bytes == 0) return 0;
  State& state = *state_;
  stream = state.stock.device.resolve(stream);
  const Marker next = require_open("reserve", state.stock.device, stream);
  Request request{{bytes, bytes, stream, {}, next}, false, stream, stream.id(), next};
  state.graphs.tidy();
  Lock lock = state.enter();
  const std::size_t largest = std::numeric_limits<std::ptrdiff_t>::max();
  if (bytes > largest - state.stock.policy.segment_multiple) state.fail(request, lock);
  request.bytes = state.stock.policy.round(bytes);
  request.small = request.bytes <= state.stock.policy.small_limit;
  state.upkeep.empty();
  state.completions.sweep();
  state.free_blocks.list_all();
  Block* block = state.growth.grow_reserve(request, lock);
  if (block == nullptr) block = state.reclaim_reserve(request, lock);
  --state.stock.meter.counts().served_grown;  // growth counted a request, but none was served
  block->segment->kept = true;
  block->lane = request.lane;
  const std::size_t got = block->bytes;
  state.free_blocks.put(block);
  return got;
}

}  // namespace millrace
