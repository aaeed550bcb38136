#pragma once

#include "millrace/pipeline/kernels/blas_handle.hpp"
#include "model/dense_arguments.hpp"

namespace millrace::model::cuda {

/**
 * @brief The part of `linear_backward` that is not a product: sets `output_gradient` to 0 where
 * ReLU set the output to 0, and adds the sums of its columns to `bias_gradient`.
 */
void mask_and_add_up(Queue queue, const LinearBackwardArguments<float>& arguments);

}  // namespace millrace::model::cuda
