#pragma once

#include <cstdint>

#include "data/random.hpp"

namespace millrace {

/** @brief x^exponent for x > 0, to about 1e-7; from IEEE's exact operations only. */
[[nodiscard]] double exact_power(double x, double exponent) noexcept;

/**
 * @brief Ranks 0 .. count-1, rank k with a probability that goes with (k + 1)^-exponent.
 *
 * By rejection-inversion (Hormann and Derflinger, 1996): no table, about one draw a rank. The same
 * on every machine, since it uses no function of the C library but sqrt, which IEEE 754 defines.
 */
class Zipf {
 public:
  /** @param exponent  0 (uniform) or more. @throws std::invalid_argument otherwise, or for count 0
   */
  Zipf(std::uint64_t count, double exponent);

  [[nodiscard]] std::uint64_t operator()(Draws& draws) const noexcept;

 private:
  [[nodiscard]] double integral(double x) const noexcept;
  [[nodiscard]] double inverse(double integral) const noexcept;

  std::uint64_t count_;
  double exponent_;
  double first_ = 0, last_ = 0, sure_ = 0;
};

}  // namespace millrace
