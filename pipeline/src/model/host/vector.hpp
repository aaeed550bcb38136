#pragma once

#include <cstddef>

/// @file
/// Short vectors: rows of embeddings. In pieces of eight, which compilers unroll and vectorise
/// though they do not know the length, and a rest.

namespace millrace::model::host {

inline constexpr std::size_t kLanes = 8;

/** @brief Calls `body(i)` for 0 to `count`. */
template <typename Body>
inline void for_lanes(std::size_t count, Body&& body) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) body(i + lane);
  }
  for (; i < count; ++i) body(i);
}

template <typename T>
inline void set_zero(T* to, std::size_t count) {
  for_lanes(count, [&](std::size_t i) { to[i] = 0; });
}

template <typename T>
inline void add(T* __restrict to, const T* __restrict from, std::size_t count) {
  for_lanes(count, [&](std::size_t i) { to[i] += from[i]; });
}

template <typename T>
inline void add_scaled(T* __restrict to, const T* __restrict from, T factor, std::size_t count) {
  for_lanes(count, [&](std::size_t i) { to[i] += factor * from[i]; });
}

/** @brief Of four sums side by side, added up in the end; then the rest. */
template <typename T>
[[nodiscard]] inline T dot(const T* a, const T* b, std::size_t count) {
  T first = 0, second = 0, third = 0, fourth = 0;
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    first += a[i] * b[i];
    second += a[i + 1] * b[i + 1];
    third += a[i + 2] * b[i + 2];
    fourth += a[i + 3] * b[i + 3];
  }
  T sum = (first + third) + (second + fourth);
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace millrace::model::host
