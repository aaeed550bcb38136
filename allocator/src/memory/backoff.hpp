#pragma once

#include <algorithm>
#include <cstddef>

namespace millrace {

/**
 * @brief Decides when to retry a refused request: after one more occasion, then after two, four,
 *        and so on up to `kMost`.
 */
class Backoff {
 public:
  static constexpr std::size_t kMost = 1024;

  /** @brief Counts an occasion. Returns whether to try on this one. */
  [[nodiscard]] bool due() noexcept {
    if (left_ == 0) return true;
    --left_;
    return false;
  }
  /** @brief Notes a refusal: the next 1, 2, 4, ... occasions are skipped. */
  void refused() noexcept {
    left_ = next_;
    next_ = std::min(2 * next_, kMost);
  }
  void granted() noexcept { *this = {}; }

 private:
  std::size_t left_ = 0, next_ = 1;
};

}  // namespace millrace
