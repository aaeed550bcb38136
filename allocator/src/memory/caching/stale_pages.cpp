#include "memory/caching/stale_pages.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>

namespace millrace {

bool StalePages::is_complete(const Block& block) const {
  return std::ranges::all_of(block.points,
                             [&](const Point p) { return stock_.device.ledger().completed(p); });
}

// Threads take turns, and a block stays in `blocks_` until it is unmapped. So while `blocks_` is
// empty, no page is mapped twice, and unmapped pages go back to the device.
bool StalePages::unmap(Block* block, std::size_t bytes, Lock& lock) {
  std::unique_lock turn{ending_, std::defer_lock};
  {
    const Unlocked unlocked{lock};  // lock order: `ending_` before the allocator's lock
    turn.lock();
  }
  if (std::ranges::find(blocks_, block) == blocks_.end() || !is_complete(*block)) return true;
  if (bytes < block->bytes) keep_first(block, bytes);
  try {
    const Unlocked unlocked{lock};
    stock_.source.end_move(block->address, block->bytes);
  } catch (const DeviceError&) {  // tried again later, after the other blocks
    const auto place = std::ranges::find(blocks_, block);
    std::rotate(place, std::next(place), blocks_.end());
    return false;
  }
  blocks_.erase(std::ranges::find(blocks_, block));
  bytes_ -= block->bytes;
  stock_.heap.vacate(block);
  return true;
}

// Splits a stale block after the first `bytes`. Both parts are stale.
void StalePages::keep_first(Block* block, std::size_t bytes) {
  Block*& rest = blocks_.emplace_back(nullptr);
  try {
    rest = stock_.heap.split(block, bytes);
  } catch (...) {
    blocks_.pop_back();
    throw;
  }
  rest->state = BlockState::stale;
}

bool StalePages::unmap_until(std::size_t most, Lock& lock) {
  while (bytes_ > most && is_complete(*blocks_.front())) {
    Block* const block = blocks_.front();
    if (!unmap(block, block->bytes, lock)) return false;
  }
  return true;
}

bool StalePages::unmap_all(Lock& lock) {
  while (!blocks_.empty()) {  // other threads may move pages meanwhile
    const Block* const first = blocks_.front();
    PointSet points;
    for (const Block* const block : blocks_) points.join(block->points);
    if (!points.empty() && !completions_.await(points, lock)) return false;
    if (!unmap_until(0, lock)) return false;
    if (!blocks_.empty() && blocks_.front() == first) return false;  // still not complete
  }
  return true;
}

void StalePages::add(Block* block) {
  block->state = BlockState::stale;
  blocks_.push_back(block);
  bytes_ += block->bytes;
}

}  // namespace millrace
