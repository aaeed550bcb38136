#include "memory/caching/completions.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace millrace {

void Completions::ask(Lock& lock) {
  const Unlocked unlocked{lock};
  stock_.device.poll();
}

bool Completions::ask_before_lock() {
  if (!has_pending_.load(std::memory_order_relaxed)) return false;
  stock_.device.poll();
  return true;
}

void Completions::poll(Lock& lock) {
  ask(lock);
  sweep();
}

bool Completions::poll_what_waits(Lock& lock) {
  if (!stock_.policy.before_growing || stock_.device.ledger().streams_in_flight() <= kMostPolled) {
    poll(lock);
    return true;
  }
  const std::vector<Shelves::Wait> waits = stock_.shelves.some_waits(kMostPolled);
  // Polls by point, because a marker of another stream, such as the legacy stream, may cover it. If
  // the newest point of a queue is complete, so is the whole queue.
  {
    const Unlocked unlocked{lock};
    for (const Shelves::Wait& wait : waits) {
      if (stock_.device.poll(wait.newest)) continue;
      stock_.device.poll(wait.newest.stream);
      stock_.device.poll(wait.oldest);
    }
  }
  sweep();
  return false;
}

// Puts blocks that have drained on their shelves as ready. Returns false if no pending block can be
// complete.
bool Completions::sweep_drained() {
  const std::uint64_t now = stock_.device.ledger().epoch();
  if (std::exchange(swept_, now) == now && !pending_.any_done()) return false;
  if (!stock_.shelves.any_draining()) return !pending_.empty();
  const std::vector<Block*>& drained = stock_.shelves.drained();
  for (Block* const block : drained) {
    stock_.turns.current().drained(block->bytes);
    stock_.runs.claimed(block);
  }
  for (Block* const block : drained) free_blocks_.put(block);
  return !pending_.empty();
}

bool Completions::await(const PointSet& points, Lock& lock) {
  if (points.empty()) {
    sweep();
    return false;
  }
  bool complete = true;
  try {
    const Unlocked unlocked{lock};
    for (const Point point : points) complete = stock_.device.synchronize(point) && complete;
    if (!complete) {  // streams that are not attached: only the whole device can be awaited
      stock_.device.synchronize();
      complete = std::ranges::all_of(
          points, [&](const Point point) { return stock_.device.ledger().completed(point); });
    }
  } catch (const DeviceError& error) {
    if (error.code() != ErrorCode::capture) throw;
    complete = false;
  }
  sweep();
  return complete;
}

bool Completions::complete_on_host(Block* block, Lock& lock) {
  try {
    PointSet points;
    points.assign(block->points);
    return points.empty() || await(points, lock);
  } catch (...) {
    free_blocks_.put(block);
    throw;
  }
}

void Completions::hold_back(Block* block) {
  block->state = BlockState::pending;
  pending_.insert(block);
  has_pending_.store(true, std::memory_order_relaxed);
  stock_.turns.current().draining(block->bytes);
}

}  // namespace millrace
