#include "memory/turns.hpp"

namespace millrace {

// A holder changes under its own lock only: who has that lock, and is the holder, stays it.
template <typename Use>
void Turns::with_holder(const Use& use) {
  for (;;) {
    Front* const holder = holder_.load(std::memory_order_acquire);
    if (holder == nullptr) return;
    const std::lock_guard hold{holder->lock};
    if (holder_.load(std::memory_order_relaxed) == holder) return use(*holder);
  }
}

// The holder's lock is only tried: who waited for it could be waited for. A lock that is taken says
// that another thread serves at this moment.
bool Turns::pass_to(Front& front) {
  Front* holder = holder_.load(std::memory_order_acquire);
  if (holder == nullptr) {
    if (!holder_.compare_exchange_strong(holder, &front, std::memory_order_acq_rel)) return false;
    return !crowded_.load(std::memory_order_acquire);  // threads may have met in the meantime
  }
  if (!holder->lock.try_lock()) return false;
  if (holder_.load(std::memory_order_relaxed) == holder) {
    holder_.store(&front, std::memory_order_release);
  }
  holder->lock.unlock();
  return true;
}

Tally* Turns::find_tally(Front& front) {
  for (;;) {
    if (holder_.load(std::memory_order_acquire) == &front) return &together_;
    if (crowded_.load(std::memory_order_acquire)) return &front.tally;
    if (pass_to(front)) continue;
    front.lock.unlock();
    meet();
    front.lock.lock();
  }
}

void Turns::meet() {
  const std::lock_guard hold{mutex_};
  crowd();
}

void Turns::crowd() {
  with_holder([&](Front&) {
    meter_.add(together_);
    crowded_.store(true, std::memory_order_release);
    holder_.store(nullptr, std::memory_order_release);
  });
}

void Turns::add_current() {
  if (together_.empty()) return;
  with_holder([&](Front&) { meter_.add(together_); });
}

void Turns::add_all() {
  add_current();
  uncounted_.take_all([&](Front& front) { add(front); }, [] {});
}

void Turns::add(Front& front) {
  if (!front.stream().valid()) return;
  meter_.add(front.tally);
  if (holder_.load(std::memory_order_acquire) == &front) meter_.add(together_);
  meter_.add(front.stream(), front.share);
}

}  // namespace millrace
