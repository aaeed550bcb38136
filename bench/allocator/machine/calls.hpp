#pragma once

#include <array>
#include <cstdint>

#include "millrace/device/device.hpp"
#include "millrace/device/profile.hpp"

namespace millrace::bench {

/// How often each call was made of a driver.
struct CallCounts {
  std::array<std::uint64_t, static_cast<std::size_t>(Call::count_)> of{};

  [[nodiscard]] std::uint64_t& operator[](Call call) { return of[static_cast<std::size_t>(call)]; }
  [[nodiscard]] std::uint64_t operator[](Call call) const {
    return of[static_cast<std::size_t>(call)];
  }
  [[nodiscard]] std::uint64_t all() const;
  /// Host time that these calls take on a device of `profile`, and its pages take in `map`.
  [[nodiscard]] double nanoseconds(const DeviceProfile& profile, std::uint64_t pages) const;

  CallCounts& operator+=(const CallCounts& other);
  friend CallCounts operator-(const CallCounts& one, const CallCounts& other);
};

/// Counts calls without a shared cache line: each thread has counts of its own.
void count_call(Call call) noexcept;
/// Of all threads, those that ended included. Exact while no other thread makes calls.
[[nodiscard]] CallCounts counted_calls();

}  // namespace millrace::bench
