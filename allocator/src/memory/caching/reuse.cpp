#include "memory/caching/reuse.hpp"

#include <vector>

#include "memory/looks.hpp"
#include "ordering/steps.hpp"

namespace millrace {

Block* Reuse::take_ready(const Request& request) {
  if (Block* const block = own_lane_.take(request)) return block;
  free_blocks_.settle();
  Block* best = least_complete(request);
  if (stock_.follows_order) {
    Block* const ordered = least_ordered(request);
    if (best == nullptr || (ordered != nullptr && fits_before(ordered, best))) best = ordered;
  }
  if (best == nullptr)
    best = stock_.shelves.nobodys().shelf(request.small).ready.first(request.bytes);
  if (best == nullptr) return nullptr;
  free_blocks_.claim(best);
  ++stock_.meter.counts().served_ordered;
  return best;
}

// Returns the best fit of the blocks of any lane that are complete on the device.
Block* Reuse::least_complete(const Request& request) {
  const auto& complete = stock_.shelves.complete(request.small);
  if (complete.empty()) return nullptr;
  const std::size_t limit = carve_limit(request);
  return first_usable(complete, request.bytes, kAnySize, [&](const Block& b) {
    return b.bytes <= limit || !kept_for_other(b.lane, request);
  });
}

// Returns the best fit of the blocks of other lanes that the user is ordered after, complete or
// not.
Block* Reuse::least_ordered(const Request& request) {
  if (!stock_.shelves.any_waits()) return nullptr;
  const StreamId user = request.user.id();
  std::vector<StreamId> before;
  for (const Point point : stock_.device.ledger().frontier(user)) before.push_back(point.stream);
  ordering::count_steps(before.size());
  Block* best = nullptr;
  const auto usable = [&](const Block& block) { return stock_.shelves.ready(block, user); };
  for (Lane* const lane :
       stock_.shelves.waiting_for(before, stock_.shelves.find(request.lane), kMostCandidates)) {
    const std::size_t limit =
        kept_for_other(lane->stream, request) ? carve_limit(request) : kAnySize;
    const Shelf& shelf = lane->shelf(request.small);
    for (const auto* const index : {&shelf.ready, &shelf.draining}) {
      Block* const block = first_usable(*index, request.bytes, limit, usable);
      if (block != nullptr && (best == nullptr || fits_before(block, best))) best = block;
    }
  }
  return best;
}

bool Reuse::kept_for_other(StreamId lane, const Request& request) const {
  return lane.valid() && lane != request.lane && stock_.device.ledger().is_open(lane);
}

std::size_t Reuse::carve_limit(const Request& request) const {
  if (request.pressed) return kAnySize;
  return static_cast<std::size_t>(static_cast<double>(request.bytes) * stock_.policy.carve_limit);
}

Block* Reuse::take_from_idle(const Request& request) {
  free_blocks_.settle();
  Block* const block = first_usable(
      stock_.shelves.complete(request.small), request.bytes, kAnySize,
      [&](const Block& found) { return upkeep_.demand_of(found.lane).live.current == 0; });
  if (block == nullptr) return nullptr;
  free_blocks_.claim(block);
  ++stock_.meter.counts().served_ordered;
  return block;
}

}  // namespace millrace
