#pragma once

#include <cstdint>

namespace millrace::simulation {

/** @brief The generator splitmix64: a seed gives the same numbers on every platform. */
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  [[nodiscard]] std::uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return mixed ^ (mixed >> 31);
  }

  /** @brief Returns a number in [0, bound); `bound` > 0 and small compared with 2^64. */
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept { return next() % bound; }
  /** @brief Returns true with probability `parts` / `whole`. */
  [[nodiscard]] bool chance(std::uint64_t parts, std::uint64_t whole) noexcept {
    return below(whole) < parts;
  }

 private:
  std::uint64_t state_;
};

}  // namespace millrace::simulation
