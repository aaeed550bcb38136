#include "millrace/pipeline/kernels/launch.cuh"
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

// Each thread takes an element of the pooled rows. Neighboring threads read neighbors in a block.
template <bool join, typename Arguments>
__global__ void columns_kernel(Arguments arguments) {
  const JoinedShape& shape = arguments.shape;
  const ColumnMap& columns = arguments.columns;
  const std::size_t size = shape.batch * shape.columns;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size;
       i += std::size_t{gridDim.x} * blockDim.x) {
    const std::size_t example = i / shape.columns, column = i % shape.columns;
    auto& joined = arguments.pooled[example * shape.stride + shape.column + column];
    const bool is_mean = !columns.mean_of.empty() && columns.mean_of[column] >= 0;
    const float mean =
        is_mean ? columns.means[columns.mean_of[column] * shape.batch + example] : 1.0F;
    // Not 0: -0 plus a part is the part, so the sum has the bits of the host's.
    float sum = join ? -0.0F : joined * mean;
    for (std::int32_t s = columns.first_source[column]; s < columns.first_source[column + 1]; ++s) {
      auto& part = arguments.blocks[element_of(columns.sources[s], example, shape.batch)];
      if constexpr (join) {
        sum += part;
      } else {
        part = sum;
      }
    }
    if constexpr (join) joined = sum * mean;
  }
}

template <bool join, typename Arguments>
void launch_columns(Queue queue, const Arguments& arguments) {
  const std::size_t threads = arguments.shape.batch * arguments.shape.columns;
  launch({join ? "join_columns" : "part_columns", blocks_for(threads), kThreads}, queue,
         columns_kernel<join, Arguments>, arguments);
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

void join_columns(Queue queue, const JoinColumnsArguments& arguments) {
  launch_columns<true>(queue, arguments);
}

void part_columns(Queue queue, const PartColumnsArguments& arguments) {
  launch_columns<false>(queue, arguments);
}

}  // namespace millrace::sharding::cuda
