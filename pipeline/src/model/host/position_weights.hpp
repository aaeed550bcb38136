#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "model/dense_arguments.hpp"

namespace millrace::model::host {

/** @brief Which weight a value has: `positions`, if any, are of bags of which this is a part. */
[[nodiscard]] inline std::size_t position_weight(std::span<const float> positions, std::size_t i,
                                                 std::size_t begin, std::size_t count) {
  const std::size_t position =
      positions.empty() ? i - begin : static_cast<std::size_t>(positions[i]);
  return std::min(position, count - 1);
}

template <typename T, typename Offset>
void position_factors(const PositionFactorsArguments<T, Offset>& arguments) {
  const auto& [starts, places, offsets, positions, shape] = arguments.bags;
  for (std::size_t bag = 0; bag < shape.features * shape.batch; ++bag) {
    const std::size_t f = bag / shape.batch;
    const auto count = static_cast<std::size_t>(starts[f + 1] - starts[f]);
    const auto begin = static_cast<std::size_t>(offsets[bag]);
    const auto end = static_cast<std::size_t>(offsets[bag + 1]);
    for (std::size_t i = begin; i < end; ++i) {
      arguments.factors[i] = count == 0
                                 ? T{1}
                                 : arguments.weights[static_cast<std::size_t>(places[f]) +
                                                     position_weight(positions, i, begin, count)];
    }
  }
}

/** @brief Example by example. */
template <typename T, typename Offset>
void position_factors_backward(const PositionFactorsBackwardArguments<T, Offset>& arguments) {
  const auto& [starts, places, offsets, positions, shape] = arguments.bags;
  for (std::size_t bag = 0; bag < shape.features * shape.batch; ++bag) {
    const std::size_t f = bag / shape.batch;
    const auto count = static_cast<std::size_t>(starts[f + 1] - starts[f]);
    if (count == 0) continue;
    const auto begin = static_cast<std::size_t>(offsets[bag]);
    const auto end = static_cast<std::size_t>(offsets[bag + 1]);
    for (std::size_t i = begin; i < end; ++i) {
      arguments.weight_gradients[static_cast<std::size_t>(places[f]) +
                                 position_weight(positions, i, begin, count)] +=
          arguments.factor_gradients[i];
    }
  }
}

}  // namespace millrace::model::host
