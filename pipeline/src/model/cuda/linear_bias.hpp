#pragma once

#include <span>

#include "model/blas_handle.hpp"
#include "model/shapes.hpp"

namespace millrace::model::cuda {

/**
 * @brief The part of `linear_backward` that is no product: sets `dy` to 0 where ReLU cut `y` off,
 *        and adds the sums of its columns to `dbias`.
 */
void mask_and_add_up(Queue queue, std::span<float> dbias, std::span<float> dy,
                     std::span<const float> y, LinearShape shape);

}  // namespace millrace::model::cuda
