#pragma once

#include <cstdint>

#include "millrace/pipeline/kernels/host_device.hpp"

namespace millrace::capture {

/**
 * @brief Finds where a sorted list reaches a value. In each round, 32 lanes read one element each,
 * and the round waits for one load. It needs about a quarter of the rounds of a binary search.
 */
class WarpSearch {
 public:
  static constexpr unsigned kLanes = 32;

  MILLRACE_HOST_DEVICE explicit WarpSearch(std::uint32_t size) : size_(size) {}

  [[nodiscard]] MILLRACE_HOST_DEVICE bool done() const { return size_ == 0; }
  /** @brief Returns, when done, the first element that is not less, or the list's size. */
  [[nodiscard]] MILLRACE_HOST_DEVICE std::uint32_t found() const { return first_; }

  [[nodiscard]] MILLRACE_HOST_DEVICE bool looks(unsigned lane) const {
    return std::uint64_t{lane} * stride() < size_;
  }
  /** @brief Returns the element that a lane reads. Valid if `looks` is true for that lane. */
  [[nodiscard]] MILLRACE_HOST_DEVICE std::uint32_t element(unsigned lane) const {
    return first_ + lane * stride();
  }
  /**
   * @param less  number of lanes whose element is less: the first lanes, because the list is sorted
   */
  MILLRACE_HOST_DEVICE void narrow(unsigned less) {
    if (less == 0) {
      size_ = 0;
      return;
    }
    const std::uint64_t step = stride();
    const std::uint64_t behind = less * step < size_ ? less * step : size_;
    const std::uint64_t passed = (less - 1) * step + 1;
    first_ += static_cast<std::uint32_t>(passed);
    size_ = static_cast<std::uint32_t>(behind - passed);
  }

 private:
  [[nodiscard]] MILLRACE_HOST_DEVICE std::uint32_t stride() const {
    return size_ / kLanes + (size_ % kLanes != 0 ? 1 : 0);
  }

  std::uint32_t first_ = 0, size_;
};

}  // namespace millrace::capture
