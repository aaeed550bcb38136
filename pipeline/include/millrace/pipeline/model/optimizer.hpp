#pragma once

#include <cstddef>
#include <string_view>

namespace millrace {

/**
 * @brief How parameters follow their gradient. With g the (summed) gradient, t steps from 1:
 *
 *   none             w stays: frozen
 *   sgd              w -= lr g
 *   rowwise_adagrad  m += mean over the row of g^2;  w -= lr / (sqrt(m) + eps) g
 *   adagrad          m += g^2;                       w -= lr / (sqrt(m) + eps) g
 *   adam             m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
 *                    w -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
 *
 * Of a table only rows that a batch looked up are touched ("lazy": the others keep m and v), each
 * once, with the gradients of all its lookups summed before ("exact"). Formulas as FBGEMM's.
 */
enum class OptimizerKind { none, sgd, rowwise_adagrad, adagrad, adam };

/** @brief "none", "sgd", "rowwise-adagrad", "adagrad", "adam" */
[[nodiscard]] std::string_view to_string(OptimizerKind kind) noexcept;
/** @throws std::invalid_argument that lists the names there are */
[[nodiscard]] OptimizerKind parse_optimizer(std::string_view name);

struct Optimizer {
  OptimizerKind kind = OptimizerKind::sgd;
  float learning_rate = 0.01F;
  float epsilon = 1e-8F;
  float beta1 = 0.9F;    ///< adam
  float beta2 = 0.999F;  ///< adam
};

/** @brief Scalars of state beside each parameter: 0, 1, or 2; 0 for the one of each row. */
[[nodiscard]] constexpr std::size_t state_of_parameter(OptimizerKind kind) noexcept {
  return kind == OptimizerKind::adam ? 2 : kind == OptimizerKind::adagrad ? 1 : 0;
}
/** @brief Scalars of state beside each row. */
[[nodiscard]] constexpr std::size_t state_of_row(OptimizerKind kind) noexcept {
  return kind == OptimizerKind::rowwise_adagrad ? 1 : 0;
}

}  // namespace millrace
