#include "memory/caching_state.hpp"

namespace millrace {
namespace {

// Streams that are marked for one request.
constexpr std::size_t kMostMarked = 16;

}  // namespace

// What can be had with less than new memory. A marker costs a small part of what growing does, and
// shows what the device has finished with where the program records none.
Block* CachingAllocator::State::instead_of_growing(const Request& request, Lock& lock) {
  if (!policy.before_growing) return nullptr;
  if (!mark_what_waits(lock)) return nullptr;
  poll(lock);
  if (Block* block = take_ready(request)) return block;
  return take_merged(request, carve_limit(request));
}

// Sees to it that the newest uses of free blocks are covered by markers. False if all were.
bool CachingAllocator::State::mark_what_waits(Lock& lock) {
  PointSet uncovered = shelves.newest_points(kMostMarked);
  const Ledger& ledger = device.ledger();
  uncovered.erase_if([&](const Point point) {
    return ledger.completed(point) || ledger.earliest_covering(point).has_value();
  });
  if (uncovered.empty()) return false;
  PointSet marked;
  lock.unlock();
  for (const Point point : uncovered) {
    try {
      if (const auto marker = device.cover(point)) marked.push_back(*marker);
    } catch (const DeviceError&) {  // then this request grows
    }
  }
  lock.lock();
  for (const Point marker : marked) continue_burst(marker);
  return !marked.empty();
}

// A marker of ours ends no burst: those are the program's.
void CachingAllocator::State::continue_burst(Point marker) {
  Front* const front = fronts.find(marker.stream);
  if (front == nullptr) return;
  const auto hold = turns.hold(*front);
  Demand& demand = front->demand;
  if (demand.marker == marker.marker) demand.marker = device.ledger().next(marker.stream);
}

}  // namespace millrace
