#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "test/gpu/bag_steps.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {

/// The largest difference between two ways to round, if sums of gradients are exact.
struct Bounds {
  std::vector<double> weights;  ///< for each number of the state
  double pooled = 0, factor_gradients = 0;
};

/// Computes the bounds from the weights and the state that plain tables have on the host.
[[nodiscard]] Bounds bounds_of(const Optimizer& optimizer, bool weighted, int steps,
                               std::size_t examples);

/// @return the largest difference as a share of its bound; at most 1 if all are within their bounds
[[nodiscard]] double largest_share(const std::vector<float>& found,
                                   const std::vector<float>& expected,
                                   const std::function<double(std::size_t)>& bound);

template <typename There, typename Here>
void check_alike(const There& there, const Here& here, const Bounds& bounds) {
  const auto all = [](double bound) { return [bound](std::size_t) { return bound; }; };
  CHECK(largest_share(there.pooled, here.pooled, all(bounds.pooled)) <= 1);
  CHECK(largest_share(there.factor_gradients, here.factor_gradients,
                      all(bounds.factor_gradients)) <= 1);
  CHECK(largest_share(there.weights, here.weights,
                      [&](std::size_t i) { return bounds.weights[i]; }) <= 1);
  CHECK(there.rows == here.rows);
}

}  // namespace millrace::test
