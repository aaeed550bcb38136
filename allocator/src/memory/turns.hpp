#pragma once

#include <atomic>
#include <mutex>

#include "memory/front.hpp"
#include "memory/meter.hpp"

namespace millrace {

/**
 * @brief Which tally counts what the fronts serve, and when the meter learns of it.
 *
 * While calls do not overlap, one tally counts for all streams, so that the meter's peaks are
 * exact. The front that serves has it, under its own lock; the next one takes it over. From the
 * first time that two threads meet, each front counts alone.
 */
class Turns {
 public:
  /** @param mutex  the allocator's, which the meter is under */
  Turns(std::mutex& mutex, Meter& meter) : mutex_(mutex), meter_(meter) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /** @brief The front's lock, and the tally that counts. Without the allocator's lock. */
  class Turn {
   public:
    Turn(Turns& turns, Front& front);
    ~Turn() { front_.lock.unlock(); }
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
    Tally* tally_;
  };

  // Under the allocator's lock.
  /** @brief Two threads have met there. */
  void crowd();
  /** @brief While calls do not overlap, what all streams did since the meter was last told. */
  void add_current();
  /** @brief All that the meter does not know yet: before somebody reads it. */
  void add_all();
  /** @brief What the meter does not know of the front's stream. Under the front's lock as well. */
  void add(Front& front);

 private:
  /** Under the front's lock, which it may drop meanwhile: what counts there. */
  [[nodiscard]] Tally* find_tally(Front& front);
  /** Under the front's lock. False: another thread serves at this moment, or has just done so. */
  bool pass_to(Front& front);
  /** Without any lock: threads have met. */
  void meet();
  /** Calls `use` under the lock of the front that has the tally, if one has it. */
  template <typename Use>
  void with_holder(const Use& use);

  std::mutex& mutex_;
  Meter& meter_;
  Tally together_;                       // of the holder's lock
  std::atomic<Front*> holder_{nullptr};  // nullptr: none yet, or crowded
  std::atomic<bool> crowded_{false};
  FrontList<&Front::with_tally> uncounted_;
};

[[gnu::always_inline]] inline Turns::Turn::Turn(Turns& turns, Front& front)
    : turns_(turns), front_(front) {
  front.lock.lock();
  const bool holds = turns.holder_.load(std::memory_order_acquire) == &front;
  tally_ = holds ? &turns.together_ : turns.find_tally(front);
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
