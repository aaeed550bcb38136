// Compiled without contraction of a * b + c: see CMakeLists.txt.
#include "data/zipf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace millrace {
namespace {

constexpr int kFractionBits = 24;
// Exponents that are closer to 1 are replaced by 1 plus this.
constexpr double kNearestToOne = 0x1p-16;

double natural_power(double x, std::uint64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent >>= 1U, x *= x) {
    if ((exponent & 1U) != 0) power *= x;
  }
  return power;
}

}  // namespace

double exact_power(double x, double exponent) noexcept {
  if (exponent < 0) return 1 / exact_power(x, -exponent);
  const double whole = std::floor(exponent);
  auto fraction = static_cast<std::uint32_t>((exponent - whole) * (1U << kFractionBits));
  double power = natural_power(x, static_cast<std::uint64_t>(whole));
  for (double root = std::sqrt(x); fraction != 0; root = std::sqrt(root)) {
    fraction <<= 1U;
    if ((fraction >> kFractionBits) != 0) power *= root;
    fraction &= (1U << kFractionBits) - 1;
  }
  return power;
}

Zipf::Zipf(std::uint64_t count, double exponent) : count_(count), exponent_(exponent) {
  if (count == 0) throw std::invalid_argument{"ids are drawn from no rows"};
  if (!(exponent >= 0 && exponent <= 64)) {
    throw std::invalid_argument{
        fmt::format("a Zipf exponent is between 0 and 64, not {}", exponent)};
  }
  if (exponent == 0) return;
  if (std::abs(1 - exponent_) < kNearestToOne) exponent_ = 1 + kNearestToOne;
  first_ = integral(1.5) - 1;
  last_ = integral(static_cast<double>(count) + 0.5);
  sure_ = 2 - inverse(integral(2.5) - exact_power(2, -exponent_));
}

std::uint64_t Zipf::operator()(Draws& draws) const noexcept {
  if (exponent_ == 0) return draws.below(count_);
  while (true) {
    const double at = last_ + draws.uniform() * (first_ - last_);
    const double x = inverse(at);
    const double rank = std::clamp(std::floor(x + 0.5), 1.0, static_cast<double>(count_));
    if (rank - x <= sure_ || at >= integral(rank + 0.5) - exact_power(rank, -exponent_)) {
      return static_cast<std::uint64_t>(rank) - 1;
    }
  }
}

double Zipf::integral(double x) const noexcept {
  const double rest = 1 - exponent_;
  return (exact_power(x, rest) - 1) / rest;
}

double Zipf::inverse(double integral) const noexcept {
  const double rest = 1 - exponent_;
  const double power = 1 + rest * integral;
  // Rounding may give a number beyond the last rank.
  if (power <= 0) return static_cast<double>(count_);
  return exact_power(power, 1 / rest);
}

}  // namespace millrace
