#pragma once

#include <cstddef>
#include <utility>

namespace millrace {

/**
 * @brief When a request is given new memory although it could have memory that lies elsewhere.
 *
 * A training loop that lacks a little would move the same pages in each step, and stops once it has
 * grown by so much. A program whose sizes never repeat would go on whatever it has. Which of the
 * two it is shows only afterwards: so one request grows after some bytes were moved, another after
 * twice as many, and so on. How much a request lacks says little about how much the program does:
 * beside free memory in pieces, one of some GiB would grow by all of them. So it grows by a small
 * part of what is reserved, and the rest of its memory is moved.
 */
class MovePatience {
 public:
  /** @param part  of the bytes reserved at the first move: moved before the first such growth; of
   *              those reserved then: what one growth may take */
  explicit MovePatience(double part) noexcept : part_(part) {}

  /**
   * @brief Whether the next request takes no new memory in place of what can be moved. False begins
   *        to count anew: what that request moves itself counts as well.
   * @param reserved  bytes
   */
  [[nodiscard]] bool lasts(std::size_t reserved) noexcept {
    if (most_ == 0 && reserved > 0) most_ = part_ * static_cast<double>(reserved);
    if (moved_ <= most_) return true;
    moved_ = 0;
    most_ *= 2;
    return false;
  }
  /**
   * @brief Bytes of the next request that are new memory although pages could be moved: 0, but in
   *        its turn the part of `reserved`.
   */
  [[nodiscard]] std::size_t growth(std::size_t reserved) noexcept {
    return lasts(reserved) ? 0 : static_cast<std::size_t>(part_ * static_cast<double>(reserved));
  }
  void moved(std::size_t bytes) noexcept { moved_ += static_cast<double>(bytes); }

 private:
  const double part_;
  double moved_ = 0;  // bytes since a request grew
  double most_ = 0;
};

}  // namespace millrace
