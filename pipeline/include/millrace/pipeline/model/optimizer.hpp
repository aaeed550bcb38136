#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

/**
 * @brief How an optimizer changes parameters. With g the (summed) gradient and t the step, from 1:
 *
 *   none             w is frozen
 *   sgd              w -= lr g
 *   rowwise_adagrad  m += mean over the row of g^2;  w -= lr / (sqrt(m) + eps) g
 *   adagrad          m += g^2;                       w -= lr / (sqrt(m) + eps) g
 *   adam             m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
 *                    w -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
 *
 * m is the first moment, v the second. An update of a table is lazy: it changes only rows that the
 * batch looked up, and all others keep m and v. It is also exact: each row is changed once, with
 * the sum of the gradients of all its lookups. The formulas are FBGEMM's.
 */
enum class OptimizerKind { none, sgd, rowwise_adagrad, adagrad, adam };

/** @brief An optimizer's row in `kOptimizers`. */
struct OptimizerTraits {
  OptimizerKind kind;
  std::string_view name;
  std::size_t state_of_parameter;  ///< state for each parameter, in scalars: 0, 1 (m), 2 (m and v)
  std::size_t state_of_row;        ///< state for each row of a table, in scalars: 0 or 1 (m)
  /// A dense update also moves parameters whose gradient is 0. The lazy one of a table does not.
  bool moves_without_gradient = false;
};

/**
 * @brief All optimizers, in the order of OptimizerKind.
 *
 * A new optimizer needs an enumerator, a row here, and its formula: `OptimizerRule` in
 * src/model/optimizer_rule.hpp.
 */
inline constexpr std::array kOptimizers{
    OptimizerTraits{OptimizerKind::none, "none", 0, 0},
    OptimizerTraits{OptimizerKind::sgd, "sgd", 0, 0},
    OptimizerTraits{OptimizerKind::rowwise_adagrad, "rowwise-adagrad", 0, 1},
    OptimizerTraits{OptimizerKind::adagrad, "adagrad", 1, 0},
    OptimizerTraits{OptimizerKind::adam, "adam", 2, 0, true},
};

[[nodiscard]] constexpr const OptimizerTraits& traits_of(OptimizerKind kind) noexcept {
  return kOptimizers[static_cast<std::size_t>(kind)];
}

/** @brief The name in `kOptimizers`. */
[[nodiscard]] std::string_view to_string(OptimizerKind kind) noexcept;
/** @throws std::invalid_argument for an unknown name; the message lists the known ones */
[[nodiscard]] OptimizerKind parse_optimizer(std::string_view name);

/**
 * @brief Returns the names for messages: `"none", "sgd" or "adam"`.
 * @param quote  written before and after each name
 */
[[nodiscard]] std::string optimizer_names(std::string_view quote);
/** @brief Returns the names of the optimizers of dense parameters, which keep no state for rows. */
[[nodiscard]] std::string dense_optimizer_names(std::string_view quote);

/** @brief An optimizer and its parameters: lr, eps, b1 and b2 in the formulas of OptimizerKind. */
struct Optimizer {
  OptimizerKind kind = OptimizerKind::sgd;
  float learning_rate = 0.01F;
  float epsilon = 1e-8F;
  float beta1 = 0.9F;    ///< adam
  float beta2 = 0.999F;  ///< adam
};

/** @brief Scalars of state for each parameter: 0, 1 or 2. State for each row does not count. */
[[nodiscard]] constexpr std::size_t state_of_parameter(OptimizerKind kind) noexcept {
  return traits_of(kind).state_of_parameter;
}
/** @brief Scalars of state for each row of a table. */
[[nodiscard]] constexpr std::size_t state_of_row(OptimizerKind kind) noexcept {
  return traits_of(kind).state_of_row;
}

}  // namespace millrace
