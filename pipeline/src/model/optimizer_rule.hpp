#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "millrace/pipeline/model/optimizer.hpp"
#include "model/host_device.hpp"

namespace millrace::model {

/** @brief An optimizer as of one step: what kernels are given. Formulas: OptimizerKind. */
template <typename T>
struct Rule {
  T learning_rate = 0, epsilon = 0, beta1 = 0, beta2 = 0;
  T correction1 = 1, correction2 = 1;  ///< 1 / (1 - beta^t)
};

/** @param step  from 1 */
template <typename T>
[[nodiscard]] Rule<T> rule_of(const Optimizer& optimizer, std::uint64_t step) {
  const auto correction = [step](float beta) {
    return static_cast<T>(1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(step))));
  };
  Rule<T> rule{static_cast<T>(optimizer.learning_rate), static_cast<T>(optimizer.epsilon),
               static_cast<T>(optimizer.beta1), static_cast<T>(optimizer.beta2)};
  if (optimizer.kind == OptimizerKind::adam) {
    rule.correction1 = correction(optimizer.beta1);
    rule.correction2 = correction(optimizer.beta2);
  }
  return rule;
}

template <OptimizerKind kind>
inline constexpr bool keeps_m = state_of_parameter(kind) > 0;
template <OptimizerKind kind>
inline constexpr bool keeps_v = state_of_parameter(kind) > 1;

/** @brief Follows the gradient of one parameter; `m` and `v` are what its kind keeps. */
template <OptimizerKind kind, typename T>
MILLRACE_HOST_DEVICE inline void follow(const Rule<T>& rule, T gradient, T& weight, T* m, T* v) {
  using std::sqrt;
  if constexpr (kind == OptimizerKind::sgd) {
    weight -= rule.learning_rate * gradient;
  } else if constexpr (kind == OptimizerKind::adagrad) {
    *m += gradient * gradient;
    weight -= rule.learning_rate / (sqrt(*m) + rule.epsilon) * gradient;
  } else if constexpr (kind == OptimizerKind::adam) {
    *m = rule.beta1 * *m + (1 - rule.beta1) * gradient;
    *v = rule.beta2 * *v + (1 - rule.beta2) * gradient * gradient;
    weight -=
        rule.learning_rate * (*m * rule.correction1) / (sqrt(*v * rule.correction2) + rule.epsilon);
  }
}

/** @brief Of row-wise Adagrad: adds to the row's state. @return what its gradient is scaled by */
template <typename T>
MILLRACE_HOST_DEVICE inline T rowwise_rate(const Rule<T>& rule, T sum_of_squares, T width, T& m) {
  using std::sqrt;
  m += sum_of_squares / width;
  return rule.learning_rate / (sqrt(m) + rule.epsilon);
}

/** @brief Calls `function.operator()<kind>()` for a kind that touches parameters. */
template <typename Function>
void for_kind(OptimizerKind kind, Function&& function) {
  switch (kind) {
    case OptimizerKind::none:
      break;
    case OptimizerKind::sgd:
      function.template operator()<OptimizerKind::sgd>();
      break;
    case OptimizerKind::rowwise_adagrad:
      function.template operator()<OptimizerKind::rowwise_adagrad>();
      break;
    case OptimizerKind::adagrad:
      function.template operator()<OptimizerKind::adagrad>();
      break;
    case OptimizerKind::adam:
      function.template operator()<OptimizerKind::adam>();
      break;
  }
}

}  // namespace millrace::model
