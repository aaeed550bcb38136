#include "millrace/pipeline/model/mlp.hpp"

#include <cmath>
#include <utility>

#include "millrace/pipeline/kernels/enqueue.hpp"
#include "model/cuda/kernels.hpp"
#include "model/dense_arguments.hpp"
#include "model/host/dense.hpp"

namespace millrace {

using namespace model;

namespace {

/** @param products  number of matrix products of the layer's three sizes */
Declared cost_of(const char* name, const LinearShape& shape, double products,
                 const BlasHandle* blas) {
  const auto rows = static_cast<double>(shape.rows);
  const auto inputs = static_cast<double>(shape.inputs);
  const auto outputs = static_cast<double>(shape.outputs);
  return {.name = name,
          .flops = 2 * products * rows * inputs * outputs,
          .bytes = sizeof(float) * (products * (rows * inputs + inputs * outputs + rows * outputs) +
                                    2 * rows * outputs),
          .blas = blas};
}

}  // namespace

Mlp::Mlp(ModelContext& context, DenseParameters& parameters, const std::string& name,
         std::size_t inputs, std::span<const std::size_t> widths, Last last)
    : context_(context), parameters_(parameters), outputs_(inputs) {
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const std::string layer = name + "." + std::to_string(i);
    const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(outputs_)));
    layers_.push_back(
        {.inputs = outputs_,
         .outputs = widths[i],
         .relu = i + 1 < widths.size() || last == Last::relu,
         .weight = parameters.add_uniform(layer + ".weight", outputs_ * widths[i], bound),
         .bias = parameters.add_uniform(layer + ".bias", widths[i], bound)});
    outputs_ = widths[i];
  }
}

const float* Mlp::output() const noexcept {
  return layers_.empty() ? x_ : layers_.back().output.data();
}

Array<float> Mlp::take_output() noexcept { return std::move(layers_.back().output); }

void Mlp::forward(const float* x, std::size_t rows, StreamRef stream) {
  x_ = x;
  rows_ = rows;
  const BlasHandle* const blas = layers_.empty() ? nullptr : context_.blas(stream);
  for (Layer& layer : layers_) {
    layer.output = context_.activation<float>(rows * layer.outputs, stream);
    if (rows == 0) continue;
    const LinearShape shape{rows, layer.inputs, layer.outputs, layer.relu};
    enqueue<host::linear<float>, cuda::linear>(
        context_, stream, cost_of("linear", shape, 1, blas),
        LinearArguments<float>{.output = writes(layer.output),
                               .input = reads(x, rows * layer.inputs),
                               .weight = reads(parameters_.values(layer.weight), layer.weight.size),
                               .bias = reads(parameters_.values(layer.bias), layer.bias.size),
                               .shape = shape});
    x = layer.output.data();
  }
}

Array<float> Mlp::backward(Array<float> gradient, bool wanted, StreamRef stream) {
  const BlasHandle* const blas = layers_.empty() ? nullptr : context_.blas(stream);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    Layer& layer = layers_[i];
    // Only layers before this one need the gradient of the input.
    const bool input_gradient = wanted || i > 0;
    const float* const x = i > 0 ? layers_[i - 1].output.data() : x_;
    Array<float> next =
        context_.activation<float>(input_gradient ? rows_ * layer.inputs : 0, stream);
    if (rows_ > 0) {
      const LinearShape shape{rows_, layer.inputs, layer.outputs, layer.relu};
      enqueue<host::linear_backward<float>, cuda::linear_backward>(
          context_, stream, cost_of("linear backward", shape, input_gradient ? 2 : 1, blas),
          LinearBackwardArguments<float>{
              .input_gradient = writes(next),
              .weight_gradient = updates(parameters_.gradients(layer.weight), layer.weight.size),
              .bias_gradient = updates(parameters_.gradients(layer.bias), layer.bias.size),
              .output_gradient = updates(gradient),
              .input = reads(x, rows_ * layer.inputs),
              .weight = reads(parameters_.values(layer.weight), layer.weight.size),
              .output = reads(static_cast<const float*>(layer.output.data()),
                              layer.relu ? layer.output.size() : 0),
              .shape = shape});
    }
    // Freed here, not at the end, because memory peaks during backward.
    layer.output = {};
    gradient = std::move(next);
  }
  drop();
  if (!wanted) return {};
  return gradient;
}

void Mlp::drop() noexcept {
  for (Layer& layer : layers_) layer.output = {};
  x_ = nullptr;
}

}  // namespace millrace
