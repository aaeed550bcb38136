#include <algorithm>

#include "millrace/pipeline/kernels/launch.cuh"
#include "millrace/pipeline/kernels/words.cuh"
#include "model/cuda/kernels.hpp"

namespace millrace::model::cuda {
namespace {

struct Vectors {
  const float *dense, *pooled;
  DotShape shape;

  __device__ const float* vector(std::size_t example, unsigned i) const {
    if (i == 0) return dense + example * shape.width;
    return pooled + (example * shape.features + i - 1) * shape.width;
  }
};

/**
 * Returns the index of the pair i < j of an example. Row k has features - k pairs, one after
 * another.
 */
__device__ std::size_t pair_number(unsigned i, unsigned j, unsigned features) {
  const std::size_t before = i == 0 ? 0 : static_cast<std::size_t>(i) * (i - 1) / 2;
  return static_cast<std::size_t>(i) * features - before + (j - i - 1);
}

/** The groups of lanes of a block, for vectors of `width` floats that are read as words. */
template <int size>
struct LaneGroups {
  unsigned words;  ///< words of a vector
  WarpRows warp;
  unsigned group, groups;  ///< this lane's group, and the number of groups in the block

  __device__ explicit LaneGroups(std::size_t width)
      : words(static_cast<unsigned>(width) / size),
        warp(words),
        group(threadIdx.x / kWarp * warp.groups + warp.group),
        groups(blockDim.x / kWarp * warp.groups) {}
};

// One block for each example; groups of lanes take pairs.
template <int size>
__global__ void dot_kernel(float* out, Vectors of) {
  const auto features = static_cast<unsigned>(of.shape.features);
  const auto [words, warp, group, groups] = LaneGroups<size>{of.shape.width};
  for (std::size_t b = blockIdx.x; b < of.shape.batch; b += gridDim.x) {
    float* const to = out + b * of.shape.columns();
    for (unsigned d = threadIdx.x; d < of.shape.width; d += blockDim.x) to[d] = of.vector(b, 0)[d];
    for (unsigned i = 0; i < features; ++i) {
      const float* const first = of.vector(b, i);
      for (unsigned start = i + 1; start <= features; start += groups) {
        const unsigned j = start + group;
        float sum = 0;
        if (j <= features) {
          const float* const second = of.vector(b, j);
          for (unsigned word = warp.lane; word < words; word += warp.lanes) {
            sum += dot(load<size>(first + word * size), load<size>(second + word * size));
          }
        }
        __syncwarp();
        sum = warp.over_lanes(sum);
        if (j <= features && warp.lane == 0) {
          to[of.shape.width + pair_number(i, j, features)] = sum;
        }
      }
    }
  }
}

// One block for each example. Each group of lanes adds the gradient of a vector, partner by
// partner.
template <int size>
__global__ void dot_backward_kernel(DotInteractionBackwardArguments<float> arguments) {
  const Vectors of{arguments.dense.data(), arguments.pooled.data(), arguments.shape};
  const auto features = static_cast<unsigned>(of.shape.features);
  const auto [words, warp, group, groups] = LaneGroups<size>{of.shape.width};
  for (std::size_t b = blockIdx.x; b < of.shape.batch; b += gridDim.x) {
    const float* const from = arguments.output_gradient.data() + b * of.shape.columns();
    const float* const of_pairs = from + of.shape.width;
    for (unsigned i = group; i <= features; i += groups) {
      float* const to = i == 0 ? arguments.dense_gradient.data() + b * of.shape.width
                               : arguments.pooled_gradient.data() +
                                     (b * of.shape.features + i - 1) * of.shape.width;
      for (unsigned word = warp.lane; word < words; word += warp.lanes) {
        Word<size> sum = zero_word<size>();
        if (i == 0) sum = load<size>(from + word * size);
        for (unsigned j = 0; j <= features; ++j) {
          if (j == i) continue;
          const float factor = of_pairs[pair_number(min(i, j), max(i, j), features)];
          add_scaled(sum, load<size>(of.vector(b, j) + word * size), factor);
        }
        store(to + word * size, sum);
      }
    }
  }
}

/**
 * One block for each example, up to kMostBlocks. Uses words of four floats if possible, otherwise
 * of one.
 */
template <typename Kernel, typename... Arguments>
void launch_dots(const char* name, const Queue& queue, const DotShape& shape, Kernel four,
                 Kernel one, Arguments... arguments) {
  const auto blocks = static_cast<unsigned>(std::min(shape.batch, kMostBlocks));
  launch({name, blocks, kThreads}, queue, shape.width % 4 == 0 ? four : one, arguments...);
}

__global__ void concatenate_kernel(ConcatenateArguments<float> arguments) {
  const auto& [output, dense, pooled, shape] = arguments;
  const std::size_t columns = shape.dense + shape.pooled;
  for (std::size_t i = this_thread(); i < shape.batch * columns; i += thread_count()) {
    const std::size_t b = i / columns, c = i % columns;
    output[i] =
        c < shape.dense ? dense[b * shape.dense + c] : pooled[b * shape.pooled + c - shape.dense];
  }
}

__global__ void concatenate_backward_kernel(ConcatenateBackwardArguments<float> arguments) {
  const auto& [dense_gradient, pooled_gradient, output_gradient, shape] = arguments;
  const std::size_t columns = shape.dense + shape.pooled;
  for (std::size_t i = this_thread(); i < shape.batch * columns; i += thread_count()) {
    const std::size_t b = i / columns, c = i % columns;
    if (c < shape.dense) {
      dense_gradient[b * shape.dense + c] = output_gradient[i];
    } else {
      pooled_gradient[b * shape.pooled + c - shape.dense] = output_gradient[i];
    }
  }
}

}  // namespace

void dot_interaction(Queue queue, const DotInteractionArguments<float>& arguments) {
  const Vectors of{arguments.dense.data(), arguments.pooled.data(), arguments.shape};
  launch_dots("dot_interaction", queue, of.shape, dot_kernel<4>, dot_kernel<1>,
              arguments.output.data(), of);
}

void dot_interaction_backward(Queue queue,
                              const DotInteractionBackwardArguments<float>& arguments) {
  launch_dots("dot_interaction_backward", queue, arguments.shape, dot_backward_kernel<4>,
              dot_backward_kernel<1>, arguments);
}

void concatenate(Queue queue, const ConcatenateArguments<float>& arguments) {
  launch({"concatenate", blocks_for(arguments.output.size()), kThreads}, queue, concatenate_kernel,
         arguments);
}

void concatenate_backward(Queue queue, const ConcatenateBackwardArguments<float>& arguments) {
  launch({"concatenate_backward", blocks_for(arguments.output_gradient.size()), kThreads}, queue,
         concatenate_backward_kernel, arguments);
}

}  // namespace millrace::model::cuda
