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

/** @brief One recording of one driver event. It returns to its pool when its last holder is gone.
 */
struct Mark {
  std::atomic<std::uint64_t> use{0};  // which use of this object, and how many hold it
  MarkPool* pool = nullptr;
  std::uint32_t index = 0;
  EventHandle own;    // the pool's event, recorded again in the next use
  EventHandle event;  // what is recorded: `own`, or a caller's
  Point point;
};

/**
 * @brief Marks and their driver events, for one use after another: as many as were ever in use at
 *        once. Creating an event costs twenty times taking one from here.
 *
 * A token names one use of a mark, and finds it without a lock while it is held. The pool
 * lives until its owner has left it and all its marks have returned.
 */
class MarkPool {
 public:
  explicit MarkPool(Device& device) : device_(device) {}
  MarkPool(const MarkPool&) = delete;
  MarkPool& operator=(const MarkPool&) = delete;

  /** @brief A mark with an event of the pool's. */
  [[nodiscard]] Event take();
  /** @brief A mark of a caller's event. */
  [[nodiscard]] Event take(EventHandle callers);

  /** @brief For the ledger, which holds the mark from now on, until `release`. */
  [[nodiscard]] static MarkerToken hold(const Event& event) noexcept;
  void release(MarkerToken token) noexcept;

  /** @brief Nothing recorded if this use of the mark is over. */
  [[nodiscard]] Event find(MarkerToken token) const noexcept;

  /** @brief The owner is done with it. */
  void leave() noexcept;

  static void add_holder(Mark& mark) noexcept;
  static void drop_holder(Mark& mark) noexcept;

 private:
  ~MarkPool();

  Mark& take_from(std::vector<Mark*>& free);
  void give(Mark& mark) noexcept;

  Device& device_;
  SpinLock lock_;  // of a few instructions, as long as there is a free mark
  ordering::StableTable<Mark> marks_;
  std::vector<Mark*> free_;       // with an event each
  std::vector<Mark*> free_bare_;  // without
  std::size_t holders_ = 1;       // marks in use, and the owner
};

}  // namespace millrace
