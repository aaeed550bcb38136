#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "millrace/device/operation.hpp"

namespace millrace::ship {

/** @brief The newest so many durations, and how they are spread. */
class Lags {
 public:
  void add(Nanoseconds lag) {
    if (lags_.size() < kKept) {
      lags_.push_back(lag);
    } else {
      lags_[next_] = lag;
    }
    next_ = (next_ + 1) % kKept;
  }
  /** @param share  0.5: the median. 0 where there is none. */
  [[nodiscard]] Nanoseconds quantile(double share) const {
    if (lags_.empty()) return Nanoseconds{0};
    std::vector<Nanoseconds> sorted = lags_;
    const auto at = static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5);
    std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(at));
    return sorted[at];
  }

 private:
  static constexpr std::size_t kKept = 4096;
  std::vector<Nanoseconds> lags_;
  std::size_t next_ = 0;
};

}  // namespace millrace::ship
