#pragma once

#include <cstddef>
#include <utility>

namespace millrace {

/**
 * @brief Decides when a request gets new memory although pages could be moved for it.
 *
 * A training loop that lacks a little memory moves the same pages in each step, and stops once it
 * has grown by that amount. A program whose sizes never repeat moves pages however much memory it
 * has. The allocator cannot know in advance which of the two a program is. So one request grows
 * after some bytes were moved, another one after twice as many, and so on. Such a growth takes only
 * a small fraction of the reserved bytes, and the rest of the request is moved. All bytes that a
 * request of several GiB lacks would be too many if the program has free memory in small pieces.
 *
 * The same rule limits how often small segments are given back (GivingBack).
 */
class MovePatience {
 public:
  /**
   * @param part  a fraction. Of the bytes reserved at the first move: the bytes that are moved
   *              before the first such growth. Of the bytes reserved later: the new memory that one
   *              growth may take
   */
  explicit MovePatience(double part) noexcept : part_(part) {}

  /**
   * @brief Returns whether the next request moves pages as far as it can. If not, it is that
   *        request's turn to grow, and the count of moved bytes starts again; the pages that this
   *        request still moves are included in the new count.
   * @param reserved  bytes reserved now
   */
  [[nodiscard]] bool lasts(std::size_t reserved) noexcept {
    if (most_ == 0 && reserved > 0) most_ = part_ * static_cast<double>(reserved);
    if (moved_ <= most_) return true;
    moved_ = 0;
    most_ *= 2;
    return false;
  }
  /**
   * @brief Returns how many bytes of the next request are new memory although pages could be moved:
   *        usually 0, and `part` of `reserved` if it is the request's turn to grow.
   */
  [[nodiscard]] std::size_t growth(std::size_t reserved) noexcept {
    return lasts(reserved) ? 0 : static_cast<std::size_t>(part_ * static_cast<double>(reserved));
  }
  void moved(std::size_t bytes) noexcept { moved_ += static_cast<double>(bytes); }

 private:
  const double part_;
  double moved_ = 0;  // bytes since the last turn to grow
  double most_ = 0;   // bytes that are moved before the next one; 0 before the first move
};

}  // namespace millrace
