#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "millrace/pipeline/kernels/host_device.hpp"
#include "millrace/pipeline/model/optimizer.hpp"

/// @file
/// The formulas of the optimizers, shared by host and CUDA kernels.

namespace millrace::model {

/** @brief An optimizer at one step, for kernels. Formulas: OptimizerKind. */
template <typename T>
struct Rule {
  OptimizerKind kind = OptimizerKind::none;
  T learning_rate = 0, epsilon = 0, beta1 = 0, beta2 = 0;
  T correction1 = 1, correction2 = 1;  ///< 1 / (1 - beta^t)
};

/** @param step  from 1 */
template <typename T>
[[nodiscard]] Rule<T> rule_of(const Optimizer& optimizer, std::uint64_t step) {
  const auto correction = [step](float beta) {
    return static_cast<T>(1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(step))));
  };
  return {optimizer.kind,
          static_cast<T>(optimizer.learning_rate),
          static_cast<T>(optimizer.epsilon),
          static_cast<T>(optimizer.beta1),
          static_cast<T>(optimizer.beta2),
          correction(optimizer.beta1),
          correction(optimizer.beta2)};
}

/**
 * @brief The formula of one kind. `follow` updates one parameter by its gradient, with the moments
 * that the kind keeps (null: none). A kind with state of rows has `row_rate` instead: it updates
 * the row's moment and returns the factor of the row's gradients.
 */
template <OptimizerKind kind>
struct OptimizerRule;

template <>
struct OptimizerRule<OptimizerKind::sgd> {
  template <typename T>
  static MILLRACE_HOST_DEVICE void follow(const Rule<T>& rule, T gradient, T& weight, T* /*m*/,
                                          T* /*v*/) {
    weight -= rule.learning_rate * gradient;
  }
};

template <>
struct OptimizerRule<OptimizerKind::rowwise_adagrad> {
  template <typename T>
  static MILLRACE_HOST_DEVICE T row_rate(const Rule<T>& rule, T sum_of_squares, T width, T& m) {
    using std::sqrt;
    m += sum_of_squares / width;
    return rule.learning_rate / (sqrt(m) + rule.epsilon);
  }
};

template <>
struct OptimizerRule<OptimizerKind::adagrad> {
  template <typename T>
  static MILLRACE_HOST_DEVICE void follow(const Rule<T>& rule, T gradient, T& weight, T* m,
                                          T* /*v*/) {
    using std::sqrt;
    *m += gradient * gradient;
    weight -= rule.learning_rate / (sqrt(*m) + rule.epsilon) * gradient;
  }
};

template <>
struct OptimizerRule<OptimizerKind::adam> {
  template <typename T>
  static MILLRACE_HOST_DEVICE void follow(const Rule<T>& rule, T gradient, T& weight, T* m, T* v) {
    using std::sqrt;
    *m = rule.beta1 * *m + (1 - rule.beta1) * gradient;
    *v = rule.beta2 * *v + (1 - rule.beta2) * gradient * gradient;
    weight -=
        rule.learning_rate * (*m * rule.correction1) / (sqrt(*v * rule.correction2) + rule.epsilon);
  }
};

/** @brief The traits and the formula of a kind, for which a kernel is compiled. */
template <OptimizerKind of>
struct CompiledOptimizer : OptimizerRule<of> {
  static constexpr OptimizerKind kind = of;
  static constexpr bool by_row = state_of_row(of) > 0;
  static constexpr bool keeps_first = state_of_parameter(of) > 0;   ///< for each parameter
  static constexpr bool keeps_second = state_of_parameter(of) > 1;  ///< for each parameter
};

/** @brief Calls `function(CompiledOptimizer<kind>{})`. Does nothing for `none`. */
template <typename Function>
void with_optimizer(OptimizerKind kind, const Function& function) {
  const auto call_if = [&]<OptimizerKind candidate>() {
    if constexpr (candidate != OptimizerKind::none) {
      if (candidate == kind) function(CompiledOptimizer<candidate>{});
    }
  };
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (call_if.template operator()<kOptimizers[i].kind>(), ...);
  }
  (std::make_index_sequence<kOptimizers.size()>{});
}

}  // namespace millrace::model
