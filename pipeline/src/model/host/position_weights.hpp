#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "model/dense_arguments.hpp"

namespace millrace::model::host {

/**
 * @brief Returns the index of a value's weight. `positions`, if not empty, are positions in whole
 * bags.
 */
[[nodiscard]] inline std::size_t position_weight(std::span<const float> positions, std::size_t i,
                                                 std::size_t begin, std::size_t count) {
  const std::size_t position =
      positions.empty() ? i - begin : static_cast<std::size_t>(positions[i]);
  return std::min(position, count - 1);
}

/** @brief Calls `use` for each bag, with its feature, the number of that feature's weights, and the
 *         range of its values. */
template <typename Offset, typename Use>
void for_each_bag(const BagPositions<Offset>& bags, Use&& use) {
  for (std::size_t bag = 0; bag < bags.shape.features * bags.shape.batch; ++bag) {
    const std::size_t f = bag / bags.shape.batch;
    use(f, static_cast<std::size_t>(bags.starts[f + 1] - bags.starts[f]),
        static_cast<std::size_t>(bags.offsets[bag]),
        static_cast<std::size_t>(bags.offsets[bag + 1]));
  }
}

template <typename T, typename Offset>
void position_factors(const PositionFactorsArguments<T, Offset>& arguments) {
  const BagPositions<Offset>& bags = arguments.bags;
  for_each_bag(bags, [&](std::size_t f, std::size_t count, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      arguments.factors[i] =
          count == 0 ? T{1}
                     : arguments.weights[static_cast<std::size_t>(bags.places[f]) +
                                         position_weight(bags.positions, i, begin, count)];
    }
  });
}

/** @brief Adds the gradients example by example. */
template <typename T, typename Offset>
void position_factors_backward(const PositionFactorsBackwardArguments<T, Offset>& arguments) {
  const BagPositions<Offset>& bags = arguments.bags;
  for_each_bag(bags, [&](std::size_t f, std::size_t count, std::size_t begin, std::size_t end) {
    if (count == 0) return;
    for (std::size_t i = begin; i < end; ++i) {
      arguments.weight_gradients[static_cast<std::size_t>(bags.places[f]) +
                                 position_weight(bags.positions, i, begin, count)] +=
          arguments.factor_gradients[i];
    }
  });
}

}  // namespace millrace::model::host
