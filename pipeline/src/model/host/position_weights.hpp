#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "model/shapes.hpp"

namespace millrace::model::host {

/** @brief Which weight a value has: `positions`, if any, are of bags of which this is a part. */
[[nodiscard]] inline std::size_t position_weight(std::span<const float> positions, std::size_t i,
                                                 std::size_t begin, std::size_t count) {
  const std::size_t position =
      positions.empty() ? i - begin : static_cast<std::size_t>(positions[i]);
  return std::min(position, count - 1);
}

/**
 * @brief The factor of each value: the weight of its position in its bag, the last one for
 *        positions beyond; 1 for keys without weights (starts[f] = starts[f + 1]).
 */
template <typename T, typename Offset>
void position_factors(std::span<T> factors, std::span<const T> weights,
                      std::span<const std::int64_t> starts, std::span<const std::int64_t> places,
                      std::span<const Offset> offsets, std::span<const float> positions,
                      PositionShape shape) {
  for (std::size_t bag = 0; bag < shape.features * shape.batch; ++bag) {
    const std::size_t f = bag / shape.batch;
    const auto count = static_cast<std::size_t>(starts[f + 1] - starts[f]);
    const auto begin = static_cast<std::size_t>(offsets[bag]);
    const auto end = static_cast<std::size_t>(offsets[bag + 1]);
    for (std::size_t i = begin; i < end; ++i) {
      factors[i] = count == 0 ? T{1}
                              : weights[static_cast<std::size_t>(places[f]) +
                                        position_weight(positions, i, begin, count)];
    }
  }
}

/** @brief Adds the gradients of the factors, example by example. */
template <typename T, typename Offset>
void position_factors_backward(std::span<T> dweights, std::span<const T> dfactors,
                               std::span<const std::int64_t> starts,
                               std::span<const std::int64_t> places,
                               std::span<const Offset> offsets, std::span<const float> positions,
                               PositionShape shape) {
  for (std::size_t bag = 0; bag < shape.features * shape.batch; ++bag) {
    const std::size_t f = bag / shape.batch;
    const auto count = static_cast<std::size_t>(starts[f + 1] - starts[f]);
    if (count == 0) continue;
    const auto begin = static_cast<std::size_t>(offsets[bag]);
    const auto end = static_cast<std::size_t>(offsets[bag + 1]);
    for (std::size_t i = begin; i < end; ++i) {
      dweights[static_cast<std::size_t>(places[f]) + position_weight(positions, i, begin, count)] +=
          dfactors[i];
    }
  }
}

}  // namespace millrace::model::host
