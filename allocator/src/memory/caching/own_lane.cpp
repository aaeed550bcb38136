#include "memory/caching/own_lane.hpp"

#include "memory/caching/expandable.hpp"

namespace millrace {
namespace {

// PyTorch serves an oversize request (`max_split` bytes or more) only with a block that is less
// than this many bytes larger.
constexpr std::size_t kOversizeSlack = std::size_t{20} << 20;

}  // namespace

Block* OwnLane::take(const Request& request) {
  if (!stock_.lanes_mix) {
    // Otherwise the user has to wait for the owner's block: `Search::find_own` does that.
    return request.user.id() == request.owner.id() ? take_best_fit(request) : nullptr;
  }
  Lane* const lane = stock_.shelves.find(request.lane);
  if (lane == nullptr) return nullptr;
  Block* const block = lane->shelf(request.small).ready.first(request.bytes);
  if (block == nullptr) return nullptr;
  free_blocks_.claim(block);
  ++stock_.meter.counts().served_own;
  return block;
}

Block* OwnLane::take_best_fit(const Request& request) {
  held_.shelve(request.lane);  // another thread or a callback may have freed a block meanwhile
  Lane* const lane = stock_.shelves.find(request.lane);
  if (lane == nullptr) return nullptr;
  const Shelf& shelf = lane->shelf(request.small);
  Block* block = shelf.ready.first(request.bytes);
  if (block == nullptr) return nullptr;
  const bool expandable = stock_.policy.expandable_segments;
  if (expandable) block = Expandable::least_growable(shelf, block);
  // Blocks of `max_split` bytes or more are never split, so they serve only requests of that size.
  // PyTorch tries no other block if the best fit is refused. Ordinary small segments are exempt.
  if (!request.small || expandable) {
    const bool oversize = request.bytes >= stock_.policy.max_split;
    if (!oversize && block->bytes >= stock_.policy.max_split) return nullptr;
    if (oversize && block->bytes >= request.bytes + kOversizeSlack) return nullptr;
  }
  free_blocks_.claim(block);
  ++stock_.meter.counts().served_own;
  return block;
}

}  // namespace millrace
