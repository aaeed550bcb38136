#pragma once

#include <atomic>

namespace millrace {

/** @brief A value that threads may read while another one writes it. Orders no other accesses. */
template <typename T>
class Relaxed {
 public:
  Relaxed() = default;
  Relaxed(T value) noexcept : value_(value) {}  // NOLINT: in place of a T
  Relaxed(const Relaxed& other) noexcept : value_(static_cast<T>(other)) {}
  Relaxed& operator=(const Relaxed& other) noexcept { return *this = static_cast<T>(other); }
  Relaxed& operator=(T value) noexcept {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  // NOLINTNEXTLINE: as above
  operator T() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<T> value_{};
};

}  // namespace millrace
