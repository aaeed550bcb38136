#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/device/operation.hpp"

namespace millrace::ship {

/**
 * @brief How durations are spread: a histogram of all of them, in 15 KiB.
 *
 * Durations below 64 ns have a bin each. From there on each power of two has 32 bins, so that a bin
 * is at most 1/32 of its durations wide.
 */
class Lags {
 public:
  void add(Nanoseconds lag, std::uint64_t times = 1) {
    const auto length = static_cast<std::uint64_t>(std::max(lag, Nanoseconds{0}).count());
    const std::size_t bin = bin_of(length);
    if (bins_.size() <= bin) bins_.resize(bin + 1);
    bins_[bin] += times;
    count_ += times;
    longest_ = std::max(longest_, lag);
  }
  /** @brief The upper end of the quantile's bin: up to 1/32 more than the duration itself.
   *  @param share  0.5: the median. 0 where nothing was added. */
  [[nodiscard]] Nanoseconds quantile(double share) const {
    if (count_ == 0) return Nanoseconds{0};
    auto left = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
    left = std::clamp<std::uint64_t>(left, 1, count_);
    std::size_t bin = 0;
    while (bins_[bin] < left) left -= bins_[bin++];
    return std::min(longest_, Nanoseconds{static_cast<Nanoseconds::rep>(end_of(bin))});
  }
  [[nodiscard]] Nanoseconds longest() const noexcept { return longest_; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  static constexpr unsigned kBits = 5;
  static constexpr std::uint64_t kPerPower = std::uint64_t{1} << kBits;

  static std::size_t bin_of(std::uint64_t length) noexcept {
    if (length < 2 * kPerPower) return length;
    const auto shift = static_cast<unsigned>(std::bit_width(length)) - kBits - 1;
    return shift * kPerPower + (length >> shift);
  }
  /** The longest duration of a bin. */
  static std::uint64_t end_of(std::size_t bin) noexcept {
    if (bin < 2 * kPerPower) return bin;
    const std::uint64_t shift = bin / kPerPower - 1;
    return ((bin - shift * kPerPower + 1) << shift) - 1;
  }

  std::vector<std::uint64_t> bins_;
  std::uint64_t count_ = 0;
  Nanoseconds longest_{0};
};

}  // namespace millrace::ship
