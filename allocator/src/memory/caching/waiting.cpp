#include "memory/caching/waiting.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "memory/looks.hpp"

namespace millrace {

// The newest marker that a request may wait for although its stream could still grow. What was last
// used before its previous burst began has had a whole burst's time: a batch's, where the stream is
// marked once a batch, so that waiting for it keeps nothing from running ahead by a batch.
std::uint64_t Waiting::long_ago(const Request& request) const {
  const Demand demand = upkeep_.demand_of(request.lane);
  const bool burst_begins = stock_.device.ledger().next(request.lane) != demand.marker;
  return burst_begins ? demand.began : demand.previous_began;
}

// A stream gets so much of its own that it need not wait: what it ever held, and some bursts more.
bool Waiting::should_grow(const Request& request) const {
  const Demand demand = upkeep_.demand_of(request.lane);
  if (demand.largest_burst == 0) return stock_.policy.spare_bursts > 0;
  Lane* const lane = stock_.shelves.find(request.lane);
  const std::size_t cached = lane == nullptr ? 0 : lane->shelf(request.small).bytes();
  const std::size_t kept = demand.live.current + request.bytes + cached;
  const double spare = stock_.policy.spare_bursts * static_cast<double>(demand.largest_burst);
  return static_cast<double>(kept) <= static_cast<double>(demand.live.peak) + spare;
}

std::optional<std::uint64_t> Waiting::earliest(const Block& block, StreamId user) const {
  std::uint64_t latest = 0;
  for (const Point point : block.points) {
    const auto when = stock_.device.earliest_wait(user, point);
    if (!when) return {};
    latest = std::max(latest, *when);
  }
  return latest;
}

Block* Waiting::take(const Request& request, std::uint64_t newest, Lock& lock) {
  using Rank = std::tuple<std::uint64_t, std::size_t, std::pair<std::size_t, std::byte*>>;
  Block* best = nullptr;
  Rank best_rank;
  const auto consider = [&](Block& block) {
    const auto when = earliest(block, request.user.id());
    if (!when || *when > newest) return false;
    const Rank rank{*when, block.bytes, place_of(&block)};
    if (best == nullptr || rank < best_rank) {
      best = &block;
      best_rank = rank;
    }
    return false;  // and so on: the next may have been used earlier
  };
  for (Lane* const lane : stock_.shelves.waiting(kMostCandidates)) {
    const std::size_t limit =
        reuse_.kept_for_other(lane->stream, request) ? reuse_.carve_limit(request) : kAnySize;
    const Shelf& shelf = lane->shelf(request.small);
    for (const auto* const index : {&shelf.ready, &shelf.draining}) {
      first_usable(*index, request.bytes, limit,
                   [&](const Block& block) { return consider(const_cast<Block&>(block)); });
    }
  }
  if (best == nullptr) return nullptr;
  free_blocks_.claim(best);
  if (!wait_for(request, best, lock)) return nullptr;
  ++stock_.meter.counts().served_waited;
  return best;
}

bool Waiting::wait_for(const Request& request, Block* block, Lock& lock) {
  PointSet points;
  points.assign(block->points);
  const Ledger& ledger = stock_.device.ledger();
  std::uint64_t waits = 0;
  bool waited = true;
  lock.unlock();
  try {
    for (const Point point : points) {
      if (ledger.ordered(point, request.user.id())) continue;
      waited = waited && stock_.device.wait_for(request.user, point);
      ++waits;
    }
  } catch (...) {
    lock.lock();
    free_blocks_.put(block);
    throw;
  }
  lock.lock();
  stock_.meter.counts().waits_inserted += waits;
  if (!waited) free_blocks_.put(block);
  return waited;
}

}  // namespace millrace
