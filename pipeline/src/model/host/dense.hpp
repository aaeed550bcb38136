#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "model/dense_arguments.hpp"
#include "model/host/blas.hpp"
#include "model/host/vector.hpp"
#include "model/optimizer_rule.hpp"
#include "model/shapes.hpp"

/// @file
/// Host kernels of the dense part. Gradients of parameters are added to the existing ones.

namespace millrace::model::host {

/** @brief Adds the bias to each row of `output`, and applies ReLU if `relu`. */
template <typename T>
void add_bias(std::span<T> output, std::span<const T> bias, bool relu) {
  for (auto row = output.begin(); row != output.end();) {
    for (const T of_column : bias) {
      const T value = *row + of_column;
      *row++ = relu ? std::max(value, T{0}) : value;
    }
  }
}

template <typename T>
void linear(const LinearArguments<T>& arguments) {
  const auto& [output, input, weight, bias, shape] = arguments;
  multiply(output.data(), {input.data()}, {weight.data(), Transposed::yes},
           {shape.rows, shape.outputs, shape.inputs}, false);
  add_bias<T>(output, bias, shape.relu);
}

/**
 * @brief The part of `linear_backward` that is not a product: sets `output_gradient` to 0 where
 * ReLU set the output to 0, and adds the sums of its columns to `bias_gradient`.
 */
template <typename T>
void mask_and_add_up(const LinearBackwardArguments<T>& arguments) {
  const LinearShape shape = arguments.shape;
  T* const gradient = arguments.output_gradient.data();
  if (shape.relu) {
    for (std::size_t i = 0; i < shape.rows * shape.outputs; ++i) {
      gradient[i] = arguments.output[i] > 0 ? gradient[i] : T{0};
    }
  }
  with_length(shape.outputs, [&](auto outputs) {
    for (std::size_t r = 0; r < shape.rows; ++r) {
      add(arguments.bias_gradient.data(), gradient + r * shape.outputs, outputs);
    }
  });
}

template <typename T>
void linear_backward(const LinearBackwardArguments<T>& arguments) {
  const LinearShape shape = arguments.shape;
  const std::span<T> output_gradient = arguments.output_gradient;
  mask_and_add_up(arguments);
  multiply(arguments.weight_gradient.data(), {output_gradient.data(), Transposed::yes},
           {arguments.input.data()}, {shape.outputs, shape.inputs, shape.rows}, true);
  if (arguments.input_gradient.empty()) return;
  multiply(arguments.input_gradient.data(), {output_gradient.data()}, {arguments.weight.data()},
           {shape.rows, shape.inputs, shape.outputs}, false);
}

/** @brief Vector i of an example: the dense vector, then the pooled ones. */
template <typename T>
struct DotVectors {
  T* dense;
  T* pooled;
  DotShape shape;

  [[nodiscard]] T* vector(std::size_t example, std::size_t i) const {
    if (i == 0) return dense + example * shape.width;
    return pooled + (example * shape.features + i - 1) * shape.width;
  }
};

template <typename T, typename Width>
void dot_interaction_of(const DotVectors<const T>& of, T* to, Width width) {
  for (std::size_t b = 0; b < of.shape.batch; ++b) {
    to = std::copy_n(of.vector(b, 0), of.shape.width, to);
    for (std::size_t i = 0; i < of.shape.features; ++i) {
      const T* const first = of.vector(b, i);
      for (std::size_t j = i + 1; j <= of.shape.features; ++j) {
        *to++ = dot(first, of.vector(b, j), width);
      }
    }
  }
}

template <typename T>
void dot_interaction(const DotInteractionArguments<T>& arguments) {
  const DotVectors<const T> of{arguments.dense.data(), arguments.pooled.data(), arguments.shape};
  with_length(arguments.shape.width,
              [&](auto width) { dot_interaction_of(of, arguments.output.data(), width); });
}

template <typename T, typename Width>
void dot_interaction_backward_of(const DotVectors<T>& gradient, const T* from,
                                 const DotVectors<const T>& of, Width width) {
  for (std::size_t b = 0; b < of.shape.batch; ++b) {
    std::copy_n(from, of.shape.width, gradient.vector(b, 0));
    from += of.shape.width;
    for (std::size_t i = 0; i < of.shape.features; ++i) {
      for (std::size_t j = i + 1; j <= of.shape.features; ++j, ++from) {
        add_scaled(gradient.vector(b, i), of.vector(b, j), *from, width);
        add_scaled(gradient.vector(b, j), of.vector(b, i), *from, width);
      }
    }
  }
}

template <typename T>
void dot_interaction_backward(const DotInteractionBackwardArguments<T>& arguments) {
  const DotShape shape = arguments.shape;
  const DotVectors<const T> of{arguments.dense.data(), arguments.pooled.data(), shape};
  const std::span<T> pooled_gradient = arguments.pooled_gradient;
  const DotVectors<T> gradient{arguments.dense_gradient.data(), pooled_gradient.data(), shape};
  std::ranges::fill(pooled_gradient, T{0});
  with_length(shape.width, [&](auto width) {
    dot_interaction_backward_of(gradient, arguments.output_gradient.data(), of, width);
  });
}

template <typename T>
void concatenate(const ConcatenateArguments<T>& arguments) {
  const auto& [output, dense, pooled, shape] = arguments;
  T* to = output.data();
  for (std::size_t b = 0; b < shape.batch; ++b) {
    to = std::copy_n(dense.data() + b * shape.dense, shape.dense, to);
    to = std::copy_n(pooled.data() + b * shape.pooled, shape.pooled, to);
  }
}

template <typename T>
void concatenate_backward(const ConcatenateBackwardArguments<T>& arguments) {
  const auto& [dense_gradient, pooled_gradient, output_gradient, shape] = arguments;
  const T* from = output_gradient.data();
  for (std::size_t b = 0; b < shape.batch; ++b) {
    std::copy_n(from, shape.dense, dense_gradient.data() + b * shape.dense);
    from += shape.dense;
    std::copy_n(from, shape.pooled, pooled_gradient.data() + b * shape.pooled);
    from += shape.pooled;
  }
}

template <typename T>
void binary_cross_entropy(const BinaryCrossEntropyArguments<T>& arguments) {
  const auto& [loss, gradient, logits, labels] = arguments;
  double sum = 0;
  const T scale = T{1} / static_cast<T>(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const T z = logits[i];
    const T e = std::exp(-std::abs(z));
    sum += std::max(z, T{0}) - z * labels[i] + std::log1p(e);
    const T sigmoid = z >= 0 ? 1 / (1 + e) : e / (1 + e);
    gradient[i] = (sigmoid - labels[i]) * scale;
  }
  loss[0] = static_cast<T>(sum / static_cast<double>(logits.size()));
}

template <typename T>
void step(const StepArguments<T>& arguments) {
  const std::span<T> parameters = arguments.parameters;
  const T* const gradients = arguments.gradients.data();
  T* const first = arguments.first_moment.data();
  T* const second = arguments.second_moment.data();
  const Rule<T> rule = arguments.rule;
  with_optimizer(rule.kind, [&]<typename Optimizer>(Optimizer) {
    if constexpr (!Optimizer::by_row) {
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        Optimizer::follow(rule, gradients[i], parameters[i],
                          Optimizer::keeps_first ? first + i : nullptr,
                          Optimizer::keeps_second ? second + i : nullptr);
      }
    }
  });
}

template <typename T>
void fill(std::span<T> out, T value) {
  std::fill(out.begin(), out.end(), value);
}

template <typename T>
void scale(std::span<T> values, T factor) {
  for (T& value : values) value *= factor;
}

}  // namespace millrace::model::host
