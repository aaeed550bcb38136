#include "memory/turns.hpp"

#include <thread>

namespace millrace {

// Once the fronts have their own locks, the shared lock stays taken. So this checks both in turn.
// It does not give the fronts their own locks, because the caller may have the allocator's lock,
// which `enter_contended` takes.
std::unique_lock<SpinLock> Turns::wait_for(Front& front) {
  std::unique_lock shared{shared_, std::defer_lock};
  while (!own_locks_.load(std::memory_order_acquire)) {
    if (shared.try_lock()) return shared;
    std::this_thread::yield();
  }
  return std::unique_lock{front.lock};
}

void Turns::enter_contended(Front& front) {
  if (!own_locks_.load(std::memory_order_acquire)) {
    const std::lock_guard hold{mutex_};
    give_own_locks();
  }
  front.lock.lock();
}

// The shared lock is never released again: a thread that reads an old `own_locks_` cannot get it,
// and so cannot enter a front without the front's own lock.
void Turns::give_own_locks() {
  if (own_locks_.load(std::memory_order_relaxed)) return;
  shared_.lock();
  own_locks_.store(true,
                   std::memory_order_release);  // before `add`: no thread must wait if that throws
  meter_.add(together_);
}

void Turns::add_current() {
  if (together_.empty()) return;
  const std::lock_guard hold{shared_};
  meter_.add(together_);
}

Tally* Turns::tally_with_room(Front& front, const Block& block) noexcept {
  if (!own_locks_.load(std::memory_order_relaxed)) {
    return together_.knows(block.tag) ? &together_ : nullptr;
  }
  return front.tally.has_room(block.bytes, block.tag) ? &front.tally : nullptr;
}

bool Turns::allocate(Front& front, std::size_t requested, const Block& block) noexcept {
  Tally* const tally = tally_with_room(front, block);
  if (tally == nullptr) return false;
  tally->allocate(requested, block.bytes, block.tag);
  ++tally->searched;
  front.share.add(block.bytes);
  uncounted_.add(front);
  return true;
}

bool Turns::free(Front& front, std::size_t requested, const Block& block) noexcept {
  Tally* const tally = tally_with_room(front, block);
  if (tally == nullptr) return false;
  tally->free(requested, block.bytes, block.tag);
  front.share.subtract(block.bytes);
  uncounted_.add(front);
  return true;
}

bool Turns::pass_all() {
  if (own_locks_.load(std::memory_order_relaxed)) return false;
  { const std::lock_guard hold{shared_}; }  // threads that were in a front have left it then
  add_all();
  return true;
}

void Turns::add_all() {
  add_current();
  uncounted_.take_all(
      *this, [&](Front& front) { add(front); }, [] {});
}

void Turns::add(Front& front) {
  if (!front.stream().valid()) return;
  meter_.add(own_locks_.load(std::memory_order_relaxed) ? front.tally : together_);
  meter_.add(front.stream(), front.share);
}

}  // namespace millrace
