#pragma once

#include <atomic>
#include <mutex>

#include "memory/front.hpp"
#include "memory/meter.hpp"
#include "millrace/ordering/adaptive_mutex.hpp"

namespace millrace {

/**
 * @brief Decides which lock guards a front, which tally counts the blocks that it serves, and when
 *        tallies are added to the meter.
 *
 * At first, all fronts share one lock and one tally: the meter's peaks are exact, and a call on
 * another stream costs nothing more. When two calls first meet at this lock or at the allocator's,
 * each front gets its own lock and its own tally, for good.
 */
class Turns {
 public:
  /** @param mutex  the allocator's lock, which guards the meter */
  Turns(AdaptiveMutex& mutex, Meter& meter) : mutex_(mutex), meter_(meter) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /** @brief Takes the front's lock. The thread must not have the lock of another front. */
  [[nodiscard, gnu::always_inline]] std::unique_lock<SpinLock> hold(Front& front) {
    SpinLock& lock = own_locks_.load(std::memory_order_acquire) ? front.lock : shared_;
    if (!lock.take()) [[unlikely]]
      return wait_for(front);
    return std::unique_lock{lock, std::adopt_lock};
  }

  /** @brief Has the front's lock, and the tally that counts. The thread must not have the
   * allocator's lock, which the constructor may take. */
  class Turn {
   public:
    Turn(Turns& turns, Front& front);
    ~Turn() { lock_->unlock(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /** @brief Returns whether a block can be counted. The shared tally has no limit of bytes, since
     * peaks miss nothing with it. */
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
   * @brief Counts a block of the front's stream that the front did not serve, or does not keep. The
   *        caller has the allocator's lock and the front's.
   * @return false if the caller has to count the block in the meter
   */
  [[nodiscard]] bool allocate(Front& front, std::size_t requested, const Block& block) noexcept;
  [[nodiscard]] bool free(Front& front, std::size_t requested, const Block& block) noexcept;

  // For callers that have the allocator's lock.
  /** @brief Returns the meter after `add_current`, to count an event that depends on it. */
  [[nodiscard]] Meter& current() {
    add_current();
    return meter_;
  }
  /** @brief Gives each front its own lock and tally from now on. */
  void give_own_locks();
  /** @brief Adds the shared tally to the meter. Once fronts have their own, it is empty. */
  void add_current();
  /**
   * @brief Waits until no thread is in a front, and adds all tallies to the meter.
   * @return false if the fronts have their own locks; nothing has happened then
   */
  bool pass_all();
  /** @brief Adds all tallies to the meter. Call it before the meter is read. */
  void add_all();
  /** @brief Adds the counts of the front and its stream to the meter. The caller has the front's
   * lock, too. */
  void add(Front& front);

 private:
  /** Returns the tally for the front if it can count the block, otherwise nullptr. The caller has
   * the front's lock. */
  [[nodiscard]] Tally* tally_with_room(Front& front, const Block& block) noexcept;
  /** Gives the fronts their own locks, and takes the front's own lock. Called when another thread
   * has the lock. */
  [[gnu::noinline]] void enter_contended(Front& front);
  /** Takes the front's lock after another thread had it. */
  [[nodiscard, gnu::noinline]] std::unique_lock<SpinLock> wait_for(Front& front);

  AdaptiveMutex& mutex_;
  Meter& meter_;
  std::atomic<bool> own_locks_{false};  // changes once, under `shared_`
  FrontList<&Front::with_tally> uncounted_;
  alignas(64) SpinLock shared_;  // the lock of all fronts; stays taken once they have their own
  Tally together_;               // the tally of all fronts, guarded by `shared_`
};

[[gnu::always_inline]] inline Turns::Turn::Turn(Turns& turns, Front& front)
    : turns_(turns), front_(front) {
  const bool alone = turns.own_locks_.load(std::memory_order_acquire);
  lock_ = alone ? &front.lock : &turns.shared_;
  tally_ = alone ? &front.tally : &turns.together_;
  if (!lock_->take()) [[unlikely]] {
    turns.enter_contended(front);
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
