#pragma once

#include <cstdint>

#include "data/random.hpp"

namespace millrace {

/** @brief Returns x^exponent for x > 0, to about 1e-7. Uses only exact operations of IEEE 754. */
[[nodiscard]] double exact_power(double x, double exponent) noexcept;

/**
 * @brief Draws ranks 0 .. count-1; rank k has a probability proportional to (k + 1)^-exponent.
 *
 * Uses rejection-inversion (Hormann and Derflinger, 1996): no table, about one random number per
 * rank. The result is the same on every machine, since the only C library function is sqrt, which
 * IEEE 754 defines.
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
