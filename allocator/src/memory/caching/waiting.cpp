#include "memory/caching/waiting.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "memory/looks.hpp"

namespace millrace {

// Returns the newest marker for which a request waits although its stream may still grow. Memory
// that was last used before the stream's previous burst began had the time of a whole burst to
// become complete. If the stream is marked once per batch, that is the time of a batch, so a wait
// does not stop the stream from running a batch ahead.
std::uint64_t Waiting::long_ago(const Request& request) const {
  const Demand demand = upkeep_.demand_of(request.lane);
  const bool burst_begins = stock_.device.ledger().next(request.lane) != demand.marker;
  return burst_begins ? demand.began : demand.previous_began;
}

// A stream grows instead of waiting while its memory is at most its highest live bytes plus
// `spare_bursts` bursts.
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
    return false;  // continues: a later block may have an earlier marker
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
