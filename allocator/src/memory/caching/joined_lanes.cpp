#include "memory/caching/joined_lanes.hpp"

#include "ordering/steps.hpp"

namespace millrace {
namespace {

// A request that would grow moves up to this many blocks, which takes less time than a new segment.
constexpr std::size_t kMovedAtOnce = 1024;

}  // namespace

// The blocks of small segments are a few percent of the memory.
bool JoinedLanes::serves(const Request& request) const { return !request.small && limit_.creeps(); }

Block* JoinedLanes::take_closer(const Request& request) {
  if (!serves(request)) return nullptr;
  free_blocks_.settle();
  join(request, ++requests_);
  Lane* const lane = stock_.shelves.find(request.lane);
  const Block* const own =
      lane == nullptr ? nullptr : lane->shelf(false).ready.first(request.bytes);
  if (own == nullptr) return nullptr;
  Block* const closest = stock_.shelves.complete(false).first(request.bytes);
  if (closest == nullptr || closest->bytes >= own->bytes) return nullptr;
  free_blocks_.claim(closest);
  ++stock_.meter.counts().served_ordered;
  return closest;
}

Block* JoinedLanes::take_joined(const Request& request) {
  if (!serves(request) || !join(request, requests_ + kMovedAtOnce)) return nullptr;
  return reuse_.take_ready(request);
}

// Does nothing if there are more than `most` complete blocks: the number of requests since the last
// call. So each request pays for one block.
bool JoinedLanes::join(const Request& request, std::size_t most) {
  const auto& complete = stock_.shelves.complete(false);
  if (complete.size() > most) return false;
  requests_ = 0;
  // A block that is moved can merge with blocks of the request's lane, but not with another one of
  // these.
  others_.clear();
  for (Block* block = complete.first(1); block != nullptr; block = complete.after(block)) {
    ordering::count_steps(1);
    if (block->lane != request.lane) others_.push_back(block);
  }
  for (Block* const block : others_) {
    free_blocks_.claim(block);
    block->lane = request.lane;
    free_blocks_.put(block);
  }
  return true;
}

}  // namespace millrace
