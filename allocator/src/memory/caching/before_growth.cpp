#include "memory/caching/before_growth.hpp"

namespace millrace {
namespace {

// Maximum number of streams that one request marks.
constexpr std::size_t kMostMarked = 16;

}  // namespace

// Cheaper than new memory: a record costs a small fraction of a growth. If the program records no
// markers, these are the only ones that a poll can find complete.
Block* BeforeGrowth::take(const Request& request, Lock& lock, bool left_out) {
  if (!stock_.policy.before_growing) return nullptr;
  const bool marked = mark_what_waits(lock);
  if (marked || left_out) {
    completions_.poll(lock);
    if (Block* block = reuse_.take_ready(request)) return block;
    if (Block* block = merging_.take(request, reuse_.carve_limit(request))) return block;
  }
  if (Block* block = reuse_.take_from_idle(request)) return block;
  return joined_.take_joined(request);
}

// Marks streams so that the newest uses of free blocks are covered. Returns false if no marker was
// recorded, because all uses were covered or none of the streams could be marked.
bool BeforeGrowth::mark_what_waits(Lock& lock) {
  PointSet uncovered = stock_.shelves.newest_points(kMostMarked);
  const Ledger& ledger = stock_.device.ledger();
  uncovered.erase_if([&](const Point point) {
    return ledger.completed(point) || ledger.earliest_covering(point).has_value();
  });
  if (uncovered.empty()) return false;
  PointSet marked;
  lock.unlock();
  for (const Point point : uncovered) {
    try {
      if (const auto marker = stock_.device.cover(point)) marked.push_back(*marker);
    } catch (const DeviceError&) {  // without a marker the request may have to grow
    }
  }
  lock.lock();
  for (const Point marker : marked) upkeep_.continue_burst(marker);
  return !marked.empty();
}

}  // namespace millrace
