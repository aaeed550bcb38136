#include <cuda_runtime.h>

#include "model/cuda/blas_api.hpp"
#include "model/cuda/kernels.hpp"
#include "model/cuda/launch.cuh"
#include "model/cuda/linear_bias.hpp"
#include "model/cuda/words.cuh"

namespace millrace::model::cuda {
namespace {

struct Factor {
  const float* data;
  bool transposed;
};
struct Product {
  std::size_t rows, columns, inner;
};

// Row-major matrices are column-major ones transposed: c^T = b^T a^T.
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

// A block has 32 columns: its rows of threads each add up every 32nd row, then a tree does the
// rest.
__global__ void mask_and_add_up_kernel(float* dy, const float* y, float* dbias, LinearShape shape) {
  __shared__ float parts[kTile][kTile + 1];
  const std::size_t column = blockIdx.x * static_cast<std::size_t>(kTile) + threadIdx.x;
  float sum = 0;
  if (column < shape.outputs) {
    for (std::size_t row = threadIdx.y; row < shape.rows; row += kTile) {
      const std::size_t i = row * shape.outputs + column;
      if (shape.relu && !(y[i] > 0)) dy[i] = 0;
      sum += dy[i];
    }
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  for (unsigned half = kTile / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
      parts[threadIdx.y][threadIdx.x] += parts[threadIdx.y + half][threadIdx.x];
    }
  }
  if (threadIdx.y == 0 && column < shape.outputs) dbias[column] += parts[0][threadIdx.x];
}

}  // namespace

void linear(Queue queue, std::span<float> y, std::span<const float> x,
            std::span<const float> weight, std::span<const float> bias, LinearShape shape) {
  multiply(queue, y.data(), {x.data(), false}, {weight.data(), true},
           {shape.rows, shape.outputs, shape.inputs}, false);
  if (shape.outputs % 4 == 0) {
    const std::size_t words = y.size() / 4;
    launch({"linear: bias", blocks_for(words), kThreads}, queue, add_bias<4>, y.data(), bias.data(),
           words, shape.outputs / 4, shape.relu);
  } else {
    launch({"linear: bias", blocks_for(y.size()), kThreads}, queue, add_bias<1>, y.data(),
           bias.data(), y.size(), shape.outputs, shape.relu);
  }
}

void mask_and_add_up(Queue queue, std::span<float> dbias, std::span<float> dy,
                     std::span<const float> y, LinearShape shape) {
  const auto blocks = static_cast<unsigned>((shape.outputs + kTile - 1) / kTile);
  launch({"linear_backward: bias", blocks, {kTile, kTile}}, queue, mask_and_add_up_kernel,
         dy.data(), y.data(), dbias.data(), shape);
}

void linear_backward(Queue queue, std::span<float> dx, std::span<float> dweight,
                     std::span<float> dbias, std::span<float> dy, std::span<const float> x,
                     std::span<const float> weight, std::span<const float> y, LinearShape shape) {
  mask_and_add_up(queue, dbias, dy, y, shape);
  multiply(queue, dweight.data(), {dy.data(), true}, {x.data(), false},
           {shape.outputs, shape.inputs, shape.rows}, true);
  if (dx.empty()) return;
  multiply(queue, dx.data(), {dy.data(), false}, {weight.data(), false},
           {shape.rows, shape.inputs, shape.outputs}, false);
}

}  // namespace millrace::model::cuda
