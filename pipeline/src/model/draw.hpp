#pragma once

#include <cstdint>

#include "millrace/pipeline/kernels/host_device.hpp"

namespace millrace::model {

/** @brief The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that mixes well. */
[[nodiscard]] MILLRACE_HOST_DEVICE inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/** @brief Returns the part of a stream of draws that begins at number `index`. */
[[nodiscard]] MILLRACE_HOST_DEVICE inline std::uint64_t draws_from(std::uint64_t stream,
                                                                   std::uint64_t index) {
  return stream + index * 0x9e3779b97f4a7c15U;
}

/**
 * @brief Returns number `index` of a stream of draws, uniform in [-bound, bound).
 *
 * Every operation except the last is exact, so every machine draws the same bits.
 */
template <typename T>
[[nodiscard]] MILLRACE_HOST_DEVICE inline T draw_uniform(std::uint64_t stream, std::uint64_t index,
                                                         T bound) {
  const std::uint64_t bits = mixed(draws_from(stream, index + 1));
  const T unit = static_cast<T>(bits >> 40U) * static_cast<T>(1.0 / (1U << 23U)) - 1;
  return unit * bound;
}

}  // namespace millrace::model
