#include "model/cuda/launch.cuh"
#include "sharding/kernels.hpp"

namespace millrace::sharding::cuda {
namespace {

using namespace model::cuda;

__device__ std::size_t element_of(const ColumnSource& source, std::size_t example,
                                  std::size_t batch) {
  return batch * source.columns_before + example * source.columns + source.column;
}

// Threads take elements of the pooled rows; neighbours are neighbours in a block as well.
template <bool join>
__global__ void columns_kernel(float* pooled, float* blocks, const std::int32_t* first_source,
                               const ColumnSource* sources, JoinedShape shape) {
  const std::size_t size = shape.batch * shape.columns;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size;
       i += std::size_t{gridDim.x} * blockDim.x) {
    const std::size_t example = i / shape.columns, column = i % shape.columns;
    float& joined = pooled[example * shape.stride + shape.column + column];
    float sum = join ? 0.0F : joined;
    for (std::int32_t s = first_source[column]; s < first_source[column + 1]; ++s) {
      float& part = blocks[element_of(sources[s], example, shape.batch)];
      if constexpr (join) {
        sum += part;
      } else {
        part = sum;
      }
    }
    if constexpr (join) joined = sum;
  }
}

template <bool join>
void launch(Queue queue, const float* pooled, const float* blocks,
            std::span<const std::int32_t> first_source, std::span<const ColumnSource> sources,
            JoinedShape shape) {
  columns_kernel<join><<<blocks_for(shape.batch * shape.columns), kThreads, 0, native(queue)>>>(
      const_cast<float*>(pooled), const_cast<float*>(blocks), first_source.data(), sources.data(),
      shape);
}

}  // namespace

void join_columns(Queue queue, std::span<float> pooled, std::span<const float> blocks,
                  std::span<const std::int32_t> first_source, std::span<const ColumnSource> sources,
                  JoinedShape shape) {
  launch<true>(queue, pooled.data(), blocks.data(), first_source, sources, shape);
}

void part_columns(Queue queue, std::span<float> blocks, std::span<const float> pooled,
                  std::span<const std::int32_t> first_source, std::span<const ColumnSource> sources,
                  JoinedShape shape) {
  launch<false>(queue, pooled.data(), blocks.data(), first_source, sources, shape);
}

}  // namespace millrace::sharding::cuda
