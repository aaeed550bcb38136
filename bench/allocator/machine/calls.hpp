#pragma once

#include <array>
#include <cstdint>

#include "millrace/device/device.hpp"
#include "millrace/device/profile.hpp"

namespace millrace::bench {

/// The number of calls to a driver, by kind.
struct CallCounts {
  std::array<std::uint64_t, static_cast<std::size_t>(Call::count_)> of{};

  [[nodiscard]] std::uint64_t& operator[](Call call) { return of[static_cast<std::size_t>(call)]; }
  [[nodiscard]] std::uint64_t operator[](Call call) const {
    return of[static_cast<std::size_t>(call)];
  }
  [[nodiscard]] std::uint64_t all() const;
  /// Host time of these calls on a device of `profile`. `map` takes the time of `pages` pages.
  [[nodiscard]] double nanoseconds(const DeviceProfile& profile, std::uint64_t pages) const;

  CallCounts& operator+=(const CallCounts& other);
  friend CallCounts operator-(const CallCounts& one, const CallCounts& other);
};

/// Counts a call. Threads share no cache line for this, because each has its own counts.
void count_call(Call call) noexcept;
/// The sum over all threads, including those that ended. Exact while no other thread makes calls.
[[nodiscard]] CallCounts counted_calls();

}  // namespace millrace::bench
