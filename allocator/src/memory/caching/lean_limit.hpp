#pragma once

#include <cstddef>

#include "memory/caching/stock.hpp"

namespace millrace {

/**
 * @brief How far the reserved bytes may exceed the highest requested bytes before rules that spare
 *        host time for memory end (Policy::lean_above). Callers hold the lock.
 *
 * With several threads, fronts may not have reported the latest requests yet, so the limit may come
 * a little early.
 */
class LeanLimit {
 public:
  explicit LeanLimit(Stock& stock) : stock_(stock) {}

  /**
   * @brief Returns by how many bytes the reserved bytes may grow, in whole pages, until they exceed
   *        the highest requested bytes by `times` the allowed excess.
   */
  [[nodiscard]] std::size_t room(double times) const;
  /**
   * @brief Returns whether the reserved bytes exceed the highest requested bytes by more than
   *        `times` the allowed excess.
   */
  [[nodiscard]] bool exceeded(double times) const;
  /**
   * @brief Returns whether the requested bytes, with a request of `bytes`, are less than twice the
   *        allowed excess below their highest value.
   */
  [[nodiscard]] bool near_peak(std::size_t bytes) const;

  /** @brief Counts a segment that a large request is about to add, if too much is reserved. */
  void count_growth();
  /**
   * @brief Returns whether the segments of large requests creep up: too much is reserved, and yet
   *        segments were added many times. A loop stops growing after a few.
   */
  [[nodiscard]] bool creeps() const;

 private:
  // The allowed excess in bytes; may be infinite.
  [[nodiscard]] double excess(double peak) const;

  Stock& stock_;
};

}  // namespace millrace
