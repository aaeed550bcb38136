#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/pipeline/kernels/array_view.hpp"
#include "model/optimizer_rule.hpp"
#include "model/shapes.hpp"

/// @file
/// The arguments of the kernels of the dense part. Conventions: embedding_arguments.hpp.

namespace millrace::model {

/** @brief output = input weight^T + bias, then ReLU if `shape.relu`. */
template <typename T>
struct LinearArguments {
  ArrayView<T> output;  ///< written
  ArrayView<const T> input, weight, bias;
  LinearShape shape;
};

/**
 * @brief Computes the gradients of a linear layer. Adds those of weight and bias to the existing
 * ones. `output_gradient` becomes the gradient before the ReLU.
 */
template <typename T>
struct LinearBackwardArguments {
  ArrayView<T> input_gradient;  ///< written; empty: not needed
  ArrayView<T> weight_gradient, bias_gradient, output_gradient;
  ArrayView<const T> input, weight, output;  ///< of forward; `output`: empty without ReLU
  LinearShape shape;
};

/** @brief For each example: its dense vector, then the product of each pair i < j, by i, then j. */
template <typename T>
struct DotInteractionArguments {
  ArrayView<T> output;  ///< written
  ArrayView<const T> dense, pooled;
  DotShape shape;
};

template <typename T>
struct DotInteractionBackwardArguments {
  ArrayView<T> dense_gradient, pooled_gradient;  ///< written
  ArrayView<const T> output_gradient;
  ArrayView<const T> dense, pooled;  ///< of forward
  DotShape shape;
};

/** @brief For each example: its dense vector, then its pooled vectors. */
template <typename T>
struct ConcatenateArguments {
  ArrayView<T> output;  ///< written
  ArrayView<const T> dense, pooled;
  ConcatShape shape;
};

template <typename T>
struct ConcatenateBackwardArguments {
  ArrayView<T> dense_gradient, pooled_gradient;  ///< written
  ArrayView<const T> output_gradient;
  ConcatShape shape;
};

/** @brief Computes the mean binary cross-entropy of logits, and its gradient. */
template <typename T>
struct BinaryCrossEntropyArguments {
  ArrayView<T> loss;      ///< written, one element
  ArrayView<T> gradient;  ///< written: gradient of each logit
  ArrayView<const T> logits, labels;
};

/**
 * @brief Applies the optimizer to each parameter. Moments are empty if the optimizer does not keep
 * them.
 */
template <typename T>
struct StepArguments {
  ArrayView<T> parameters, first_moment, second_moment;
  ArrayView<const T> gradients;
  Rule<T> rule;
};

/** @brief The positions of ids in their bags, and the places of position weights. */
template <typename Offset>
struct BagPositions {
  ArrayView<const std::int64_t> starts;  ///< [features + 1]: index of each feature's first weight
  /** [features]: place of each feature's first weight among all. */
  ArrayView<const std::int64_t> places;
  ArrayView<const Offset> offsets;  ///< [features * batch + 1]
  /** Position of each id in its whole bag, if bags are parts; empty: bags are whole. */
  ArrayView<const float> positions;
  PositionShape shape;
};

/**
 * @brief Computes the factor of each id: the weight of its position in its bag. Positions beyond
 * the last weight have that weight. The factor is 1 for features without weights (starts[f] =
 * starts[f + 1]).
 */
template <typename T, typename Offset>
struct PositionFactorsArguments {
  ArrayView<T> factors;  ///< written
  ArrayView<const T> weights;
  BagPositions<Offset> bags;
};

/** @brief Adds the gradients of the factors to those of the weights. */
template <typename T, typename Offset>
struct PositionFactorsBackwardArguments {
  ArrayView<T> weight_gradients;
  ArrayView<const T> factor_gradients;
  BagPositions<Offset> bags;
};

}  // namespace millrace::model
