#pragma once

#include <chrono>
#include <cstddef>

/// @file
/// Sizes and times as numbers of a unit, for messages, tables and JSON. Sizes as text:
/// millrace/memory/byte_size.hpp.

namespace millrace {

inline constexpr double kKiB = 1024.0;
inline constexpr double kMiB = 1024.0 * kKiB;
inline constexpr double kGiB = 1024.0 * kMiB;

[[nodiscard]] constexpr double in_seconds(std::chrono::nanoseconds time) noexcept {
  return static_cast<double>(time.count()) / 1e9;
}
[[nodiscard]] constexpr double in_milliseconds(std::chrono::nanoseconds time) noexcept {
  return static_cast<double>(time.count()) / 1e6;
}
/** @brief The same for means and medians, which have fractions of a nanosecond. */
[[nodiscard]] constexpr double in_seconds(double nanoseconds) noexcept { return nanoseconds / 1e9; }
[[nodiscard]] constexpr double in_milliseconds(double nanoseconds) noexcept {
  return nanoseconds / 1e6;
}
[[nodiscard]] constexpr double in_microseconds(std::chrono::nanoseconds time) noexcept {
  return static_cast<double>(time.count()) / 1e3;
}

[[nodiscard]] constexpr double in_mib(std::size_t bytes) noexcept {
  return static_cast<double>(bytes) / kMiB;
}
[[nodiscard]] constexpr double in_gib(std::size_t bytes) noexcept {
  return static_cast<double>(bytes) / kGiB;
}
/** @brief Decimal, as data sheets name sizes and rates. */
[[nodiscard]] constexpr double in_gb(double bytes) noexcept { return bytes / 1e9; }

}  // namespace millrace
