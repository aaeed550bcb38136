#include "model/cuda/launch.cuh"
#include "sharding/kernels.hpp"

namespace millrace::sharding::cuda {
namespace {

using namespace model::cuda;

__device__ std::size_t element_of(const ColumnSource& source, std::size_t example,
                                  std::size_t batch) {
  return batch * source.columns_before + example * source.columns + source.column;
}

template <typename Offset>
__global__ void means_kernel(float* means, std::size_t batch, const Offset* offsets) {
  for (std::size_t b = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; b < batch;
       b += std::size_t{gridDim.x} * blockDim.x) {
    const Offset ids = offsets[b + 1] - offsets[b];
    means[b] = ids == 0 ? 0.0F : 1.0F / static_cast<float>(ids);
  }
}

// Threads take elements of the pooled rows; neighbours are neighbours in a block as well.
template <bool join>
__global__ void columns_kernel(float* pooled, float* blocks, const std::int32_t* first_source,
                               const ColumnSource* sources, const std::int32_t* mean_of,
                               const float* means, JoinedShape shape) {
  const std::size_t size = shape.batch * shape.columns;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size;
       i += std::size_t{gridDim.x} * blockDim.x) {
    const std::size_t example = i / shape.columns, column = i % shape.columns;
    float& joined = pooled[example * shape.stride + shape.column + column];
    const bool is_mean = mean_of != nullptr && mean_of[column] >= 0;
    const float mean = is_mean ? means[mean_of[column] * shape.batch + example] : 1.0F;
    float sum = join ? 0.0F : joined * mean;
    for (std::int32_t s = first_source[column]; s < first_source[column + 1]; ++s) {
      float& part = blocks[element_of(sources[s], example, shape.batch)];
      if constexpr (join) {
        sum += part;
      } else {
        part = sum;
      }
    }
    if constexpr (join) joined = sum * mean;
  }
}

template <bool join>
void launch_columns(Queue queue, const float* pooled, const float* blocks,
                    std::span<const std::int32_t> first_source,
                    std::span<const ColumnSource> sources, std::span<const std::int32_t> mean_of,
                    std::span<const float> means, JoinedShape shape) {
  launch(
      {join ? "join_columns" : "part_columns", blocks_for(shape.batch * shape.columns), kThreads},
      queue, columns_kernel<join>, const_cast<float*>(pooled), const_cast<float*>(blocks),
      first_source.data(), sources.data(), mean_of.data(), means.data(), shape);
}

}  // namespace

template <typename Offset>
void bag_means(Queue queue, std::span<float> means, std::span<const Offset> offsets,
               std::size_t first) {
  launch({"bag_means", blocks_for(means.size()), kThreads}, queue, means_kernel<Offset>,
         means.data(), means.size(), offsets.data() + first);
}
template void bag_means<std::int32_t>(Queue, std::span<float>, std::span<const std::int32_t>,
                                      std::size_t);
template void bag_means<std::int64_t>(Queue, std::span<float>, std::span<const std::int64_t>,
                                      std::size_t);

void join_columns(Queue queue, std::span<float> pooled, std::span<const float> blocks,
                  std::span<const std::int32_t> first_source, std::span<const ColumnSource> sources,
                  std::span<const std::int32_t> mean_of, std::span<const float> means,
                  JoinedShape shape) {
  launch_columns<true>(queue, pooled.data(), blocks.data(), first_source, sources, mean_of, means,
                       shape);
}

void part_columns(Queue queue, std::span<float> blocks, std::span<const float> pooled,
                  std::span<const std::int32_t> first_source, std::span<const ColumnSource> sources,
                  std::span<const std::int32_t> mean_of, std::span<const float> means,
                  JoinedShape shape) {
  launch_columns<false>(queue, pooled.data(), blocks.data(), first_source, sources, mean_of, means,
                        shape);
}

}  // namespace millrace::sharding::cuda
