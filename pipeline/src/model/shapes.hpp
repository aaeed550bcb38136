#pragma once

#include <cstddef>

#include "millrace/pipeline/kernels/host_device.hpp"

/// @file
/// Shapes, which kernels get together with their views. Matrices are row-major without padding.

namespace millrace::model {

/** @brief Bytes of a number of the model, for the costs of its operations. */
inline constexpr auto kScalar = static_cast<double>(sizeof(float));

/** @brief y [rows x outputs] = x [rows x inputs] w^T + b, w [outputs x inputs]; then ReLU. */
struct LinearShape {
  std::size_t rows = 0, inputs = 0, outputs = 0;
  bool relu = false;
};

/** @brief One dense and `features` pooled vectors for each example, all of width `width`. */
struct DotShape {
  std::size_t batch = 0, features = 0, width = 0;

  [[nodiscard]] MILLRACE_HOST_DEVICE constexpr std::size_t pairs() const {
    return features * (features + 1) / 2;
  }
  [[nodiscard]] MILLRACE_HOST_DEVICE constexpr std::size_t columns() const {
    return width + pairs();
  }
};

/** @brief Columns of the dense and of the pooled part of each example. */
struct ConcatShape {
  std::size_t batch = 0, dense = 0, pooled = 0;
};

/**
 * @brief Bags of `features` keys. Key f has `starts[f + 1] - starts[f]` weights, from `places[f]`
 * on.
 */
struct PositionShape {
  std::size_t features = 0, batch = 0;
  std::size_t weights = 0;  ///< number of weights of all keys, the last of `starts`
};

}  // namespace millrace::model
