#pragma once

#include <cstdint>

namespace millrace {

/**
 * @brief Random numbers that are the same on every machine, with random access: SplitMix64 (Steele,
 *        Lea, Flood 2014). It uses only integers, so no library or compiler can change the result.
 */
class Draws {
 public:
  explicit Draws(std::uint64_t seed) noexcept : state_(seed) {}
  /** @brief Returns another sequence. Each pair of sequence and number gives a different one. */
  [[nodiscard]] Draws branch(std::uint64_t number) const noexcept {
    return Draws{mixed(state_ ^ mixed(number + kStep))};
  }

  std::uint64_t next() noexcept { return mixed(state_ += kStep); }
  /** @brief Returns a number below `bound`, uniform to within bound / 2^64. */
  std::uint64_t below(std::uint64_t bound) noexcept {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(next()) * bound >> 64U);
  }
  /** @brief Returns a number in [0, 1), in steps of 2^-53. */
  double uniform() noexcept { return static_cast<double>(next() >> 11U) * 0x1p-53; }
  /**
   * @brief Returns twelve uniform numbers minus six: approximately standard normal within three
   * deviations.
   */
  double normal() noexcept {
    std::int64_t sum = -6 * 65535;
    for (int draw = 0; draw < 3; ++draw) {
      for (std::uint64_t bits = next(), part = 0; part < 4; ++part, bits >>= 16U) {
        sum += static_cast<std::int64_t>(bits & 0xffffU);
      }
    }
    return static_cast<double>(sum) * 0x1p-16;
  }

  [[nodiscard]] static constexpr std::uint64_t mixed(std::uint64_t bits) noexcept {
    bits = (bits ^ bits >> 30U) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ bits >> 27U) * 0x94d049bb133111ebU;
    return bits ^ bits >> 31U;
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;
  std::uint64_t state_;
};

}  // namespace millrace
