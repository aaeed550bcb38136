#pragma once

#include <atomic>
#include <mutex>

#include "memory/front.hpp"
#include "memory/meter.hpp"

namespace millrace {

/**
 * @brief Which lock the fronts are under, which tally counts what they serve, and when the meter
 *        learns of it.
 *
 * While calls do not overlap, all fronts share one lock and one tally, so that the meter's peaks
 * are exact and a call on another stream costs nothing more. From the first time that two threads
 * meet there, each front has its own lock and counts alone.
 */
class Turns {
 public:
  /** @param mutex  the allocator's, which the meter is under */
  Turns(std::mutex& mutex, Meter& meter) : mutex_(mutex), meter_(meter) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /** @brief The front's lock, which is never held together with that of another front. */
  [[nodiscard, gnu::always_inline]] std::unique_lock<SpinLock> hold(Front& front) {
    SpinLock& lock = crowded_.load(std::memory_order_acquire) ? front.lock : shared_;
    if (!lock.take()) [[unlikely]]
      return wait_for(front);
    return std::unique_lock{lock, std::adopt_lock};
  }

  /** @brief The front's lock, and the tally that counts. Without the allocator's lock. */
  class Turn {
   public:
    Turn(Turns& turns, Front& front);
    ~Turn() { lock_->unlock(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /** @brief Whether a block can be counted; only what counts alone makes peaks miss something. */
    [[nodiscard, gnu::always_inline]] bool has_room(std::size_t bytes, Tag tag) const noexcept {
      return tally_ == &front_.tally ? tally_->has_room(bytes, tag) : tally_->knows(tag);
    }
    void allocate(std::size_t requested, const Block& block) noexcept;
    void free(std::size_t requested, const Block& block) noexcept;

   private:
    Turns& turns_;
    Front& front_;
    SpinLock* lock_;
    Tally* tally_;
  };

  /**
   * @brief A block of the front's stream that it did not serve, or does not keep. Under the front's
   *        lock, and the allocator's. False: the meter has to count it.
   */
  [[nodiscard]] bool allocate(Front& front, std::size_t requested, const Block& block) noexcept;
  [[nodiscard]] bool free(Front& front, std::size_t requested, const Block& block) noexcept;

  // Under the allocator's lock.
  /** @brief The meter, after it has counted all that streams did: to count what comes next. */
  [[nodiscard]] Meter& current() {
    add_current();
    return meter_;
  }
  /** @brief Two threads have met there. */
  void crowd();
  /** @brief While calls do not overlap, adds what all streams did since the last time. */
  void add_current();
  /**
   * @brief While calls do not overlap: waits until none is in a front, and adds all that the meter
   *        does not know. False: each front has its own lock.
   */
  bool pass_all();
  /** @brief Adds all that the meter does not know yet: before it is read. */
  void add_all();
  /** @brief Adds what the meter does not know of the front's stream. Under the front's lock as
   * well. */
  void add(Front& front);

 private:
  /** Under the front's lock: what counts there, if it can count the block. */
  [[nodiscard]] Tally* tally_with_room(Front& front, const Block& block) noexcept;
  /** Another thread has the front's lock: takes its own one, which it has then. */
  [[gnu::noinline]] void meet(Front& front);
  [[nodiscard, gnu::noinline]] std::unique_lock<SpinLock> wait_for(Front& front);

  std::mutex& mutex_;
  Meter& meter_;
  std::atomic<bool> crowded_{false};  // changes once, under `shared_`
  FrontList<&Front::with_tally> uncounted_;
  alignas(64) SpinLock shared_;  // of all fronts; once threads have met it stays taken
  Tally together_;               // under it
};

[[gnu::always_inline]] inline Turns::Turn::Turn(Turns& turns, Front& front)
    : turns_(turns), front_(front) {
  const bool alone = turns.crowded_.load(std::memory_order_acquire);
  lock_ = alone ? &front.lock : &turns.shared_;
  tally_ = alone ? &front.tally : &turns.together_;
  if (!lock_->take()) [[unlikely]] {
    turns.meet(front);
    lock_ = &front.lock;
    tally_ = &front.tally;
  }
}

[[gnu::always_inline]] inline void Turns::Turn::allocate(std::size_t requested,
                                                         const Block& block) noexcept {
  tally_->allocate(requested, block.bytes, block.tag);
  front_.share.add(block.bytes);
  turns_.uncounted_.add(front_);
}

[[gnu::always_inline]] inline void Turns::Turn::free(std::size_t requested,
                                                     const Block& block) noexcept {
  tally_->free(requested, block.bytes, block.tag);
  front_.share.subtract(block.bytes);
  turns_.uncounted_.add(front_);
}

}  // namespace millrace
