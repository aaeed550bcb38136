#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "data/random.hpp"

namespace millrace {

/** @brief Returns 0 to count - 1 in random order (Fisher and Yates), the same on any machine. */
[[nodiscard]] inline std::vector<std::size_t> drawn_order(std::size_t count, Draws draws) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t left = count; left > 1; --left) {
    std::swap(order[left - 1], order[draws.below(left)]);
  }
  return order;
}

}  // namespace millrace
