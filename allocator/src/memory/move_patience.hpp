#pragma once

#include <cstddef>
#include <utility>

namespace millrace {

/**
 * @brief When a request is given new pages although pages could be moved to it.
 *
 * A training loop that lacks a little would move the same pages in each step, and stops once it has
 * grown by so much. A program whose sizes never repeat would go on whatever it has. Which of the
 * two it is shows only afterwards: so one request grows after some bytes were moved, another after
 * twice as many, and so on.
 */
class MovePatience {
 public:
  /** @brief Whether pages are moved to the next request. @param reserved  bytes */
  [[nodiscard]] bool lasts(std::size_t reserved) noexcept {
    constexpr std::size_t kReservedPerFirst = 256;
    if (most_ == 0) most_ = reserved / kReservedPerFirst;
    if (moved_ <= most_) return true;
    moved_ = 0;
    most_ *= 2;
    return false;
  }
  void moved(std::size_t bytes) noexcept { moved_ += bytes; }

 private:
  std::size_t moved_ = 0;  // since a request grew
  std::size_t most_ = 0;
};

}  // namespace millrace
