#include <cuda_runtime.h>

#include "millrace/pipeline/kernels/launch.cuh"
#include "millrace/pipeline/kernels/words.cuh"
#include "model/cuda/blas_api.hpp"
#include "model/cuda/kernels.hpp"
#include "model/cuda/linear_bias.hpp"

namespace millrace::model::cuda {
namespace {

struct Factor {
  const float* data;
  bool transposed;
};
struct Product {
  std::size_t rows, columns, inner;
};

// A row-major matrix is the transpose of a column-major one, as cuBLAS has them:
// c^T = b^T a^T.
void multiply(const Queue& queue, float* c, Factor a, Factor b, Product shape, bool add) {
  const float one = 1, start = add ? 1 : 0;
  const auto operation = [](const Factor& factor) { return factor.transposed ? 1 : 0; };
  const auto size = [](std::size_t n) { return static_cast<int>(n); };
  check_blas(BlasApi::get().sgemm(queue.blas->handle, operation(b), operation(a),
                                  size(shape.columns), size(shape.rows), size(shape.inner), &one,
                                  b.data, size(b.transposed ? shape.inner : shape.columns), a.data,
                                  size(a.transposed ? shape.rows : shape.inner), &start, c,
                                  size(shape.columns)),
             "cublasSgemm");
}

template <int size>
__global__ void add_bias(float* y, const float* bias, std::size_t words, std::size_t words_of_row,
                         bool relu) {
  for (std::size_t i = this_thread(); i < words; i += thread_count()) {
    Word<size> word = load<size>(y + i * size);
    const Word<size> of_bias = load<size>(bias + i % words_of_row * size);
#pragma unroll
    for (int d = 0; d < size; ++d) {
      const float value = word.value[d] + of_bias.value[d];
      word.value[d] = relu ? fmaxf(value, 0.0F) : value;
    }
    store(y + i * size, word);
  }
}

constexpr unsigned kTile = 32;

// A block has 32 columns. Each of its rows of threads adds every 32nd row, then a tree adds the
// parts.
__global__ void mask_and_add_up_kernel(LinearBackwardArguments<float> arguments) {
  __shared__ float parts[kTile][kTile + 1];
  const LinearShape& shape = arguments.shape;
  float* const gradient = arguments.output_gradient.data();
  const std::size_t column = blockIdx.x * static_cast<std::size_t>(kTile) + threadIdx.x;
  float sum = 0;
  if (column < shape.outputs) {
    for (std::size_t row = threadIdx.y; row < shape.rows; row += kTile) {
      const std::size_t i = row * shape.outputs + column;
      if (shape.relu && !(arguments.output[i] > 0)) gradient[i] = 0;
      sum += gradient[i];
    }
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  for (unsigned half = kTile / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
      parts[threadIdx.y][threadIdx.x] += parts[threadIdx.y + half][threadIdx.x];
    }
  }
  if (threadIdx.y == 0 && column < shape.outputs) {
    arguments.bias_gradient[column] += parts[0][threadIdx.x];
  }
}

}  // namespace

void linear(Queue queue, const LinearArguments<float>& arguments) {
  const auto& [output, input, weight, bias, shape] = arguments;
  multiply(queue, output.data(), {input.data(), false}, {weight.data(), true},
           {shape.rows, shape.outputs, shape.inputs}, false);
  if (shape.outputs % 4 == 0) {
    const std::size_t words = output.size() / 4;
    launch({"linear: bias", blocks_for(words), kThreads}, queue, add_bias<4>, output.data(),
           bias.data(), words, shape.outputs / 4, shape.relu);
  } else {
    launch({"linear: bias", blocks_for(output.size()), kThreads}, queue, add_bias<1>, output.data(),
           bias.data(), output.size(), shape.outputs, shape.relu);
  }
}

void mask_and_add_up(Queue queue, const LinearBackwardArguments<float>& arguments) {
  const auto blocks = static_cast<unsigned>((arguments.shape.outputs + kTile - 1) / kTile);
  launch({"linear_backward: bias", blocks, {kTile, kTile}}, queue, mask_and_add_up_kernel,
         arguments);
}

void linear_backward(Queue queue, const LinearBackwardArguments<float>& arguments) {
  const LinearShape shape = arguments.shape;
  const float* const output_gradient = arguments.output_gradient.data();
  mask_and_add_up(queue, arguments);
  multiply(queue, arguments.weight_gradient.data(), {output_gradient, true},
           {arguments.input.data(), false}, {shape.outputs, shape.inputs, shape.rows}, true);
  if (arguments.input_gradient.empty()) return;
  multiply(queue, arguments.input_gradient.data(), {output_gradient, false},
           {arguments.weight.data(), false}, {shape.rows, shape.inputs, shape.outputs}, false);
}

}  // namespace millrace::model::cuda
