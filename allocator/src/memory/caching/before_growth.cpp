#include "memory/caching/before_growth.hpp"

namespace millrace {
namespace {

// Streams that are marked for one request.
constexpr std::size_t kMostMarked = 16;

}  // namespace

// What can be had with less than new memory. A marker costs a small part of what growing does, and
// shows what the device has finished with where the program records none.
Block* BeforeGrowth::take(const Request& request, Lock& lock, bool left_out) {
  if (!stock_.policy.before_growing) return nullptr;
  const bool marked = mark_what_waits(lock);
  if (marked || left_out) {
    completions_.poll(lock);
    if (Block* block = reuse_.take_ready(request)) return block;
    if (Block* block = merging_.take(request, reuse_.carve_limit(request))) return block;
  }
  return reuse_.take_from_idle(request);
}

// Sees to it that the newest uses of free blocks are covered by markers. False if all were.
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
    } catch (const DeviceError&) {  // then this request grows
    }
  }
  lock.lock();
  for (const Point marker : marked) upkeep_.continue_burst(marker);
  return !marked.empty();
}

}  // namespace millrace
