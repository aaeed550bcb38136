#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/pipeline/kernels/array_view.hpp"
#include "model/optimizer_rule.hpp"
#include "model/shapes.hpp"

/// @file
/// What the kernels of the dense part take: as embedding_arguments.hpp.

namespace millrace::model {

/** @brief output = input weight^T + bias, then ReLU if `shape` says so. */
template <typename T>
struct LinearArguments {
  ArrayView<T> output;  ///< written
  ArrayView<const T> input, weight, bias;
  LinearShape shape;
};

/**
 * @brief Gradients of a linear layer. Those of weight and bias are added to what is there, and
 *        `output_gradient` becomes the gradient before the ReLU.
 */
template <typename T>
struct LinearBackwardArguments {
  ArrayView<T> input_gradient;  ///< written; none: it is not asked for
  ArrayView<T> weight_gradient, bias_gradient, output_gradient;
  ArrayView<const T> input, weight, output;  ///< of forward; `output`: none without ReLU
  LinearShape shape;
};

/** @brief Of each example: its dense vector, then the product of each pair i < j, by i, then j. */
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

/** @brief The mean binary cross-entropy of logits, and its gradient. */
template <typename T>
struct BinaryCrossEntropyArguments {
  ArrayView<T> loss;      ///< written, one
  ArrayView<T> gradient;  ///< written: of each logit
  ArrayView<const T> logits, labels;
};

/** @brief Applies the optimizer to each parameter. Moments: none where the optimizer keeps none. */
template <typename T>
struct StepArguments {
  ArrayView<T> parameters, first_moment, second_moment;
  ArrayView<const T> gradients;
  Rule<T> rule;
};

/** @brief Where the ids of a batch are in their bags, and where the weights of positions are. */
template <typename Offset>
struct BagPositions {
  ArrayView<const std::int64_t> starts;  ///< [features + 1]: of each feature's weights, counted
  ArrayView<const std::int64_t> places;  ///< [features]: where its weights begin among all
  ArrayView<const Offset> offsets;       ///< [features * batch + 1]
  ArrayView<const float> positions;      ///< of each id, if bags are parts; none: in its bag
  PositionShape shape;
};

/**
 * @brief The factor of each id: the weight of its position in its bag, the last one for positions
 *        beyond; 1 for features without weights (starts[f] = starts[f + 1]).
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
