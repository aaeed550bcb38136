#include "millrace/pipeline/kernels/launch.cuh"
#include "millrace/pipeline/kernels/words.cuh"
#include "model/cuda/kernels.hpp"
#include "model/draw.hpp"

namespace millrace::model::cuda {
namespace {

constexpr unsigned kLossThreads = 1024;

// One block: each thread adds every 1024th example, then a tree adds the parts.
__global__ void loss_kernel(BinaryCrossEntropyArguments<float> arguments) {
  const auto& [loss, gradient, logits, labels] = arguments;
  const std::size_t count = logits.size();
  __shared__ double parts[kLossThreads];
  double sum = 0;
  const float scale = 1.0F / static_cast<float>(count);
  for (std::size_t i = threadIdx.x; i < count; i += kLossThreads) {
    const float z = logits[i], label = labels[i];
    const float e = expf(-fabsf(z));
    sum += static_cast<double>(fmaxf(z, 0.0F) - z * label + log1pf(e));
    const float sigmoid = z >= 0 ? 1 / (1 + e) : e / (1 + e);
    gradient[i] = (sigmoid - label) * scale;
  }
  parts[threadIdx.x] = sum;
  for (unsigned half = kLossThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
  }
  if (threadIdx.x == 0) loss[0] = static_cast<float>(parts[0] / static_cast<double>(count));
}

template <typename Optimizer>
__global__ void step_kernel(StepArguments<float> arguments) {
  const std::size_t words = arguments.parameters.size() / 4;  // the array is padded to whole words
  float* const parameters = arguments.parameters.data();
  float* const firsts = arguments.first_moment.data();
  float* const seconds = arguments.second_moment.data();
  for (std::size_t i = this_thread(); i < words; i += thread_count()) {
    const Word<4> gradient = load<4>(arguments.gradients.data() + 4 * i);
    Word<4> parameter = load<4>(parameters + 4 * i);
    Word<4> first = zero_word<4>(), second = zero_word<4>();
    if constexpr (Optimizer::keeps_first) first = load<4>(firsts + 4 * i);
    if constexpr (Optimizer::keeps_second) second = load<4>(seconds + 4 * i);
#pragma unroll
    for (int d = 0; d < 4; ++d) {
      Optimizer::follow(arguments.rule, gradient.value[d], parameter.value[d], &first.value[d],
                        &second.value[d]);
    }
    store(parameters + 4 * i, parameter);
    if constexpr (Optimizer::keeps_first) store(firsts + 4 * i, first);
    if constexpr (Optimizer::keeps_second) store(seconds + 4 * i, second);
  }
}

__global__ void fill_kernel(float* out, std::size_t size, float value) {
  for (std::size_t i = this_thread(); i < size; i += thread_count()) out[i] = value;
}

__global__ void scale_kernel(float* values, std::size_t size, float factor) {
  for (std::size_t i = this_thread(); i < size; i += thread_count()) values[i] *= factor;
}

__global__ void fill_uniform_kernel(float* out, std::size_t size, std::uint64_t stream,
                                    float bound) {
  for (std::size_t i = this_thread(); i < size; i += thread_count()) {
    out[i] = draw_uniform(stream, i, bound);
  }
}

// Each thread takes a bag.
template <typename Offset>
__global__ void position_kernel(PositionFactorsArguments<float, Offset> arguments) {
  const auto& [starts, places, offsets, positions, shape] = arguments.bags;
  for (std::size_t bag = this_thread(); bag < shape.features * shape.batch; bag += thread_count()) {
    const std::size_t f = bag / shape.batch;
    const std::int64_t count = starts[f + 1] - starts[f];
    const auto begin = static_cast<std::int64_t>(offsets[bag]);
    const auto end = static_cast<std::int64_t>(offsets[bag + 1]);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t position =
          positions.empty() ? i - begin : static_cast<std::int64_t>(positions[i]);
      arguments.factors[i] =
          count == 0 ? 1.0F : arguments.weights[places[f] + min(position, count - 1)];
    }
  }
}

// Each block has one weight: its threads take examples, then a tree adds their parts.
template <typename Offset>
__global__ void position_backward_kernel(
    PositionFactorsBackwardArguments<float, Offset> arguments) {
  __shared__ float parts[kThreads];
  const auto& [starts, places, offsets, positions, shape] = arguments.bags;
  const float* const gradients = arguments.factor_gradients.data();
  const std::int64_t weight = blockIdx.x;
  std::size_t f = 0;
  while (starts[f + 1] <= weight) ++f;
  const std::int64_t position = weight - starts[f];
  const bool is_last = weight + 1 == starts[f + 1];
  float sum = 0;
  for (std::size_t b = threadIdx.x; b < shape.batch; b += kThreads) {
    const auto begin = static_cast<std::int64_t>(offsets[f * shape.batch + b]);
    const auto end = static_cast<std::int64_t>(offsets[f * shape.batch + b + 1]);
    if (!positions.empty()) {  // positions in the whole bag
      for (std::int64_t i = begin; i < end; ++i) {
        const auto there = static_cast<std::int64_t>(positions[i]);
        if (is_last ? there >= position : there == position) sum += gradients[i];
      }
      continue;
    }
    const std::int64_t stop = is_last ? end : min(end, begin + position + 1);
    for (std::int64_t i = begin + position; i < stop; ++i) sum += gradients[i];
  }
  parts[threadIdx.x] = sum;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
  }
  if (threadIdx.x == 0) arguments.weight_gradients[places[f] + position] += parts[0];
}

}  // namespace

void binary_cross_entropy(Queue queue, const BinaryCrossEntropyArguments<float>& arguments) {
  launch({"binary_cross_entropy", 1, kLossThreads}, queue, loss_kernel, arguments);
}

void step(Queue queue, const StepArguments<float>& arguments) {
  with_optimizer(arguments.rule.kind, [&]<typename Optimizer>(Optimizer) {
    if constexpr (!Optimizer::by_row) {
      launch({"step", blocks_for(arguments.parameters.size() / 4), kThreads}, queue,
             step_kernel<Optimizer>, arguments);
    }
  });
}

void fill(Queue queue, std::span<float> out, float value) {
  launch({"fill", blocks_for(out.size()), kThreads}, queue, fill_kernel, out.data(), out.size(),
         value);
}

void scale(Queue queue, std::span<float> values, float factor) {
  launch({"scale", blocks_for(values.size()), kThreads}, queue, scale_kernel, values.data(),
         values.size(), factor);
}

void fill_uniform(Queue queue, std::span<float> out, std::uint64_t stream, float bound) {
  launch({"fill_uniform", blocks_for(out.size()), kThreads}, queue, fill_uniform_kernel, out.data(),
         out.size(), stream, bound);
}

template <typename Offset>
void position_factors(Queue queue, const PositionFactorsArguments<float, Offset>& arguments) {
  const PositionShape& shape = arguments.bags.shape;
  launch({"position_factors", blocks_for(shape.features * shape.batch), kThreads}, queue,
         position_kernel<Offset>, arguments);
}

template <typename Offset>
void position_factors_backward(Queue queue,
                               const PositionFactorsBackwardArguments<float, Offset>& arguments) {
  const auto blocks = static_cast<unsigned>(arguments.bags.shape.weights);
  launch({"position_factors_backward", blocks, kThreads}, queue, position_backward_kernel<Offset>,
         arguments);
}

// NOLINTBEGIN: instantiations
#define MILLRACE_FOR_OFFSET(Offset)                                                      \
  template void position_factors(Queue, const PositionFactorsArguments<float, Offset>&); \
  template void position_factors_backward(Queue,                                         \
                                          const PositionFactorsBackwardArguments<float, Offset>&);
MILLRACE_FOR_OFFSET(std::int32_t)
MILLRACE_FOR_OFFSET(std::int64_t)
#undef MILLRACE_FOR_OFFSET
// NOLINTEND

}  // namespace millrace::model::cuda
