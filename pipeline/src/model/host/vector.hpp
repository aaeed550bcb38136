#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

/// @file
/// Short vectors, such as rows of embeddings. Lengths are known only at run time, but loops are
/// fast only if the compiler knows the length: `with_length` calls a body that is compiled for the
/// length. The order of sums does not depend on the type of the length.

namespace millrace::model::host {

inline constexpr std::size_t kLanes = 8;

/** @brief A length that the compiler knows. */
template <std::size_t count>
using Length = std::integral_constant<std::size_t, count>;

/** @brief A length whose remainder after division by `kLanes` the compiler knows. */
template <std::size_t rest>
struct LongLength {
  std::size_t count = 0;
  [[nodiscard]] constexpr operator std::size_t() const { return count; }
};

/** @brief Calls `body(length)`. Widths that rows of embeddings often have are a Length. */
template <typename Body>
inline decltype(auto) with_length(std::size_t count, Body&& body) {
  switch (count) {
    case 4:
      return body(Length<4>{});
    case 8:
      return body(Length<8>{});
    case 16:
      return body(Length<16>{});
    case 32:
      return body(Length<32>{});
    default:
      break;
  }
  switch (count % kLanes) {
    case 0:
      return body(LongLength<0>{count});
    case 1:
      return body(LongLength<1>{count});
    case 2:
      return body(LongLength<2>{count});
    case 3:
      return body(LongLength<3>{count});
    case 4:
      return body(LongLength<4>{count});
    case 5:
      return body(LongLength<5>{count});
    case 6:
      return body(LongLength<6>{count});
    default:
      return body(LongLength<7>{count});
  }
}

/** @brief Calls `body(i)` for i from 0 to `count` - 1. */
template <std::size_t count, typename Body>
inline void for_lanes(Length<count>, Body&& body) {
  for (std::size_t i = 0; i < count; ++i) body(i);
}

template <std::size_t rest, typename Body>
inline void for_lanes(LongLength<rest> length, Body&& body) {
  const std::size_t whole = length.count - rest;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) body(i + lane);
  }
  for (std::size_t lane = 0; lane < rest; ++lane) body(whole + lane);
}

template <typename T, typename Count>
inline void set_zero(T* to, Count count) {
  for_lanes(count, [&](std::size_t i) { to[i] = 0; });
}

template <typename T, typename Count>
inline void add(T* __restrict to, const T* __restrict from, Count count) {
  for_lanes(count, [&](std::size_t i) { to[i] += from[i]; });
}

template <typename T, typename Count>
inline void add_scaled(T* __restrict to, const T* __restrict from, T factor, Count count) {
  for_lanes(count, [&](std::size_t i) { to[i] += factor * from[i]; });
}

/** @brief A sum of vectors. A short one is kept in registers until `store`, a long one in `to`. */
template <typename T, typename Count>
class VectorSum {
 public:
  explicit VectorSum(T* to, Count count) : to_(to), count_(count) { set_zero(to_, count_); }
  void add(const T* from) { host::add(to_, from, count_); }
  void add_scaled(const T* from, T factor) { host::add_scaled(to_, from, factor, count_); }
  void scale(T factor) {
    for_lanes(count_, [&](std::size_t i) { to_[i] *= factor; });
  }
  [[nodiscard]] const T* data() const { return to_; }
  void store() {}

 private:
  T* to_;
  Count count_;
};

template <typename T, std::size_t count>
class VectorSum<T, Length<count>> {
 public:
  explicit VectorSum(T* to, Length<count>) : to_(to) {}
  void add(const T* from) { host::add(sum_, from, kCount); }
  void add_scaled(const T* from, T factor) { host::add_scaled(sum_, from, factor, kCount); }
  void scale(T factor) {
    for_lanes(kCount, [&](std::size_t i) { sum_[i] *= factor; });
  }
  [[nodiscard]] const T* data() const { return sum_; }
  void store() {
    for_lanes(kCount, [&](std::size_t i) { to_[i] = sum_[i]; });
  }

 private:
  static constexpr Length<count> kCount{};
  T* to_;
  T sum_[count] = {};
};

/** @brief Adds four interleaved sums, then the rest. */
template <typename T, std::size_t rest>
[[nodiscard]] inline T dot(const T* a, const T* b, LongLength<rest> length) {
  constexpr std::size_t tail = rest % 4;
  const std::size_t whole = length.count - tail;
  T sums[4] = {};
  for (std::size_t i = 0; i < whole; i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  T sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
  for (std::size_t i = 0; i < tail; ++i) sum += a[whole + i] * b[whole + i];
  return sum;
}

template <typename T, std::size_t count>
requires(count % 4 == 0) [[nodiscard]] inline T dot(const T* a, const T* b, Length<count>) {
  T sums[4] = {};
  for (std::size_t i = 0; i < count; i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

}  // namespace millrace::model::host
