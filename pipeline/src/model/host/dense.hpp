#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "model/host/blas.hpp"
#include "model/host/vector.hpp"
#include "model/optimizer_rule.hpp"
#include "model/shapes.hpp"

/// @file
/// Host kernels of the dense part. Gradients of parameters are added to what is there.

namespace millrace::model::host {

template <typename T>
void linear(std::span<T> y, std::span<const T> x, std::span<const T> weight,
            std::span<const T> bias, LinearShape shape) {
  for (std::size_t r = 0; r < shape.rows; ++r) {
    std::copy_n(bias.data(), shape.outputs, y.data() + r * shape.outputs);
  }
  multiply(y.data(), {x.data()}, {weight.data(), Transposed::yes},
           {shape.rows, shape.outputs, shape.inputs}, true);
  if (!shape.relu) return;
  for (T& value : y) value = std::max(value, T{0});
}

/** @brief `dy` becomes the gradient before the ReLU. `dx` may be empty: then it is not asked for.
 */
template <typename T>
void linear_backward(std::span<T> dx, std::span<T> dweight, std::span<T> dbias, std::span<T> dy,
                     std::span<const T> x, std::span<const T> weight, std::span<const T> y,
                     LinearShape shape) {
  if (shape.relu) {
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = y[i] > 0 ? dy[i] : T{0};
  }
  with_length(shape.outputs, [&](auto outputs) {
    for (std::size_t r = 0; r < shape.rows; ++r) {
      add(dbias.data(), dy.data() + r * shape.outputs, outputs);
    }
  });
  multiply(dweight.data(), {dy.data(), Transposed::yes}, {x.data()},
           {shape.outputs, shape.inputs, shape.rows}, true);
  if (dx.empty()) return;
  multiply(dx.data(), {dy.data()}, {weight.data()}, {shape.rows, shape.inputs, shape.outputs},
           false);
}

/** @brief Vector i of an example: the dense one, then the pooled ones. */
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

/** @brief Of each example: its dense vector, then the product of each pair i < j, by i, then j. */
template <typename T>
void dot_interaction(std::span<T> out, std::span<const T> dense, std::span<const T> pooled,
                     DotShape shape) {
  const DotVectors<const T> of{dense.data(), pooled.data(), shape};
  with_length(shape.width, [&](auto width) { dot_interaction_of(of, out.data(), width); });
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
void dot_interaction_backward(std::span<T> ddense, std::span<T> dpooled, std::span<const T> dout,
                              std::span<const T> dense, std::span<const T> pooled, DotShape shape) {
  const DotVectors<const T> of{dense.data(), pooled.data(), shape};
  const DotVectors<T> gradient{ddense.data(), dpooled.data(), shape};
  std::fill(dpooled.begin(), dpooled.end(), T{0});
  with_length(shape.width,
              [&](auto width) { dot_interaction_backward_of(gradient, dout.data(), of, width); });
}

template <typename T>
void concatenate(std::span<T> out, std::span<const T> dense, std::span<const T> pooled,
                 ConcatShape shape) {
  T* to = out.data();
  for (std::size_t b = 0; b < shape.batch; ++b) {
    to = std::copy_n(dense.data() + b * shape.dense, shape.dense, to);
    to = std::copy_n(pooled.data() + b * shape.pooled, shape.pooled, to);
  }
}

template <typename T>
void concatenate_backward(std::span<T> ddense, std::span<T> dpooled, std::span<const T> dout,
                          ConcatShape shape) {
  const T* from = dout.data();
  for (std::size_t b = 0; b < shape.batch; ++b) {
    std::copy_n(from, shape.dense, ddense.data() + b * shape.dense);
    from += shape.dense;
    std::copy_n(from, shape.pooled, dpooled.data() + b * shape.pooled);
    from += shape.pooled;
  }
}

/** @brief Mean binary cross-entropy of logits, and its gradient. */
template <typename T>
void binary_cross_entropy(std::span<T> loss, std::span<T> dlogits, std::span<const T> logits,
                          std::span<const T> labels) {
  double sum = 0;
  const T scale = T{1} / static_cast<T>(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const T z = logits[i];
    const T e = std::exp(-std::abs(z));
    sum += std::max(z, T{0}) - z * labels[i] + std::log1p(e);
    const T sigmoid = z >= 0 ? 1 / (1 + e) : e / (1 + e);
    dlogits[i] = (sigmoid - labels[i]) * scale;
  }
  loss[0] = static_cast<T>(sum / static_cast<double>(logits.size()));
}

template <OptimizerKind kind, typename T>
void step(std::span<T> parameters, std::span<T> m, std::span<T> v, std::span<const T> gradients,
          Rule<T> rule) {
  T* const first = m.data();
  T* const second = v.data();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    follow<kind>(rule, gradients[i], parameters[i], first + i, second + i);
  }
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
