#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/sort_arguments.hpp"

namespace millrace::model::host {

inline constexpr unsigned kMostDigitBits = 11;

/** @brief Returns the bytes of scratch for `count` pairs: room for a second copy of all pairs. */
template <typename Key>
[[nodiscard]] constexpr std::size_t sort_scratch(std::size_t count) {
  return count * (sizeof(Key) + sizeof(std::uint32_t));
}

/** @brief Stable radix sort, least significant digit first. */
template <typename Key>
void sort_pairs(const SortPairsArguments<Key>& arguments) {
  const std::span<const Key> keys = arguments.keys;
  const unsigned bits = arguments.bits;
  Key* const spare_keys = reinterpret_cast<Key*>(arguments.scratch.data());
  auto* const spare_values = reinterpret_cast<std::uint32_t*>(spare_keys + keys.size());
  const unsigned passes = std::max(1U, (bits + kMostDigitBits - 1) / kMostDigitBits);
  const unsigned digit = std::max(1U, (bits + passes - 1) / passes);
  const Key mask = static_cast<Key>((Key{1} << digit) - 1);
  const auto digit_of = [&](Key key, unsigned pass) {
    return static_cast<std::size_t>((key >> (pass * digit)) & mask);
  };

  std::vector<std::uint32_t> places((std::size_t{1} << digit) * passes);
  for (const Key key : keys) {
    for (unsigned pass = 0; pass < passes; ++pass) {
      ++places[(std::size_t{pass} << digit) + digit_of(key, pass)];
    }
  }

  const Key* from_keys = keys.data();
  const std::uint32_t* from_values = arguments.values.data();
  for (unsigned pass = 0; pass < passes; ++pass) {
    std::uint32_t* const place = places.data() + (std::size_t{pass} << digit);
    std::uint32_t before = 0;
    for (std::size_t d = 0; d <= mask; ++d) before += std::exchange(place[d], before);
    const bool to_output = (passes - pass) % 2 == 1;
    Key* const to_keys = to_output ? arguments.sorted_keys.data() : spare_keys;
    std::uint32_t* const to_values = to_output ? arguments.sorted_values.data() : spare_values;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::uint32_t at = place[digit_of(from_keys[i], pass)]++;
      to_keys[at] = from_keys[i];
      to_values[at] = from_values[i];
    }
    from_keys = to_keys;
    from_values = to_values;
  }
}

}  // namespace millrace::model::host
