#pragma once

#include <algorithm>
#include <cstddef>

namespace millrace {

/**
 * @brief When to ask again for what was refused: after one occasion more, then two, four, and so on
 *        up to `kMost`.
 */
class Backoff {
 public:
  static constexpr std::size_t kMost = 1024;

  /** @brief Whether this is an occasion to ask. */
  [[nodiscard]] bool due() noexcept {
    if (left_ == 0) return true;
    --left_;
    return false;
  }
  void refused() noexcept {
    left_ = next_;
    next_ = std::min(2 * next_, kMost);
  }
  void granted() noexcept { *this = {}; }

 private:
  std::size_t left_ = 0, next_ = 1;
};

}  // namespace millrace
