#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/device/stream.hpp"
#include "ordering/spin_lock.hpp"
#include "ordering/stable_table.hpp"

namespace millrace {

class MarkPool;

/**
 * @brief One recording of one driver event. It returns to its pool when its last holder is gone.
 */
struct Mark {
  std::atomic<std::uint64_t> use{0};  // number of this use of the object, and its holders
  MarkPool* pool = nullptr;
  std::uint32_t index = 0;
  EventHandle own;    // the pool's event, recorded again in the next use
  EventHandle event;  // the recorded event: `own`, or a caller's
  Point point;
};

/**
 * @brief Marks and their driver events, which are reused. Their number is the highest number in use
 *        at the same time. Creating an event takes twenty times as long as taking one from here.
 *
 * A token identifies one use of a mark, and finds it without a lock while it has a holder. The
 * pool's event of a mark exists as long as the pool, which lives until its owner has left it and
 * all its marks have returned.
 */
class MarkPool {
 public:
  explicit MarkPool(Device& device) : device_(device) {}
  MarkPool(const MarkPool&) = delete;
  MarkPool& operator=(const MarkPool&) = delete;

  /** @brief Returns a mark with an event of the pool. */
  [[nodiscard]] Event take();
  /** @brief Returns a mark for a caller's event. */
  [[nodiscard]] Event take(EventHandle callers);

  /** @brief Returns the token of this use of the event's mark. Adds no holder. */
  [[nodiscard]] static MarkerToken token(const Event& event) noexcept;
  /**
   * @brief Makes the ledger the holder of the mark in place of `event`, until `release`. Call it
   *        after the ledger got the token; the ledger may have released it already.
   */
  static void hand_over(Event& event) noexcept { event.mark_ = nullptr; }
  void release(MarkerToken token) noexcept;

  /** @brief Returns the token's mark; an unrecorded event if this use of the mark is over. */
  [[nodiscard]] Event find(MarkerToken token) const noexcept;

  /** @brief Removes the owner. The pool deletes itself after its last mark has returned. */
  void leave() noexcept;

  /**
   * @brief Returns the pool's event of the token's mark, which exists as long as the pool; no event
   *        if the mark is for callers' events. If this use of the mark is over, the event may be
   *        recorded again.
   */
  [[nodiscard]] EventHandle own_event(MarkerToken token) const noexcept;

  static void add_holder(Mark& mark) noexcept;
  static void drop_holder(Mark& mark) noexcept;

 private:
  ~MarkPool();

  Mark& take_from(std::vector<Mark*>& free);
  static void begin_use(Mark& mark) noexcept;
  void give(Mark& mark) noexcept;

  Device& device_;
  SpinLock lock_;  // held for a few instructions while a free mark exists
  ordering::StableTable<Mark> marks_;
  std::vector<Mark*> free_;       // marks with an event
  std::vector<Mark*> free_bare_;  // marks without an event
  std::size_t holders_ = 1;       // number of marks in use, plus 1 for the owner
};

}  // namespace millrace
