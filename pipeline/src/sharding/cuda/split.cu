#include "model/cuda/launch.cuh"
#include "sharding/kernels.hpp"

namespace millrace::sharding::cuda {
namespace {

using namespace model::cuda;

__device__ std::size_t this_thread() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::size_t thread_count() { return std::size_t{gridDim.x} * blockDim.x; }

struct Features {
  const SplitFeature* data;
  std::size_t count;
};

/** Threads take bags of the result: a rank, a feature, an example. */
struct Bag {
  std::size_t rank, from;
  SplitFeature feature;
};
__device__ Bag bag_of(std::size_t i, Features features, SplitShape shape) {
  const std::size_t row = i / shape.batch;
  const SplitFeature feature = features.data[row % features.count];
  return {row / features.count,
          static_cast<std::size_t>(feature.key) * shape.batch + i % shape.batch, feature};
}

template <typename Id, typename Offset>
__global__ void split_lengths_kernel(Offset* lengths, std::size_t bags, const Id* ids,
                                     const Offset* offsets, Features features, SplitShape shape) {
  for (std::size_t i = this_thread(); i < bags; i += thread_count()) {
    const Bag bag = bag_of(i, features, shape);
    Offset count = 0;
    for (Offset at = offsets[bag.from]; at < offsets[bag.from + 1]; ++at) {
      count += rank_of(ids[at], bag.feature.block, shape.ranks) == bag.rank ? 1 : 0;
    }
    lengths[i] = count;
  }
}

/** What is split, and where to. */
template <typename Id>
struct Split {
  const Id* ids;
  const float* weights;
  Id* out;
  float* out_weights;  ///< null: none
};

template <typename Id, typename Offset>
__global__ void split_values_kernel(Split<Id> split, const Offset* out_offsets, std::size_t bags,
                                    const Offset* offsets, Features features, SplitShape shape) {
  for (std::size_t i = this_thread(); i < bags; i += thread_count()) {
    const Bag bag = bag_of(i, features, shape);
    const auto first = static_cast<Id>(bag.rank) * static_cast<Id>(bag.feature.block);
    auto to = static_cast<std::size_t>(out_offsets[i]);
    for (Offset at = offsets[bag.from]; at < offsets[bag.from + 1]; ++at) {
      if (rank_of(split.ids[at], bag.feature.block, shape.ranks) != bag.rank) continue;
      split.out[to] = split.ids[at] - first;
      if (split.out_weights != nullptr) split.out_weights[to] = split.weights[at];
      ++to;
    }
  }
}

template <typename Offset>
__global__ void count_split_kernel(std::int64_t* counts, std::size_t rows, const Offset* offsets,
                                   std::size_t batch) {
  for (std::size_t row = this_thread(); row < rows; row += thread_count()) {
    counts[row] = offsets[(row + 1) * batch] - offsets[row * batch];
  }
}

template <typename Offset>
__global__ void positions_kernel(float* positions, std::size_t bags, const Offset* offsets) {
  for (std::size_t bag = this_thread(); bag < bags; bag += thread_count()) {
    for (Offset i = offsets[bag]; i < offsets[bag + 1]; ++i) {
      positions[i] = static_cast<float>(i - offsets[bag]);
    }
  }
}

}  // namespace

template <typename Id, typename Offset>
void split_lengths(Queue queue, std::span<Offset> lengths, std::span<const Id> ids,
                   std::span<const Offset> offsets, std::span<const SplitFeature> features,
                   SplitShape shape) {
  launch({"split_lengths", blocks_for(lengths.size()), kThreads}, queue,
         split_lengths_kernel<Id, Offset>, lengths.data(), lengths.size(), ids.data(),
         offsets.data(), Features{features.data(), features.size()}, shape);
}

template <typename Id, typename Offset>
void split_values(Queue queue, std::span<Id> out, std::span<float> out_weights,
                  std::span<const Offset> out_offsets, std::span<const Id> ids,
                  std::span<const Offset> offsets, std::span<const float> weights,
                  std::span<const SplitFeature> features, SplitShape shape) {
  const std::size_t bags = out_offsets.size() - 1;
  launch({"split_values", blocks_for(bags), kThreads}, queue, split_values_kernel<Id, Offset>,
         Split<Id>{ids.data(), weights.data(), out.data(), out_weights.data()}, out_offsets.data(),
         bags, offsets.data(), Features{features.data(), features.size()}, shape);
}

template <typename Offset>
void count_split(Queue queue, std::span<std::int64_t> counts, std::span<const Offset> offsets,
                 std::size_t batch) {
  launch({"count_split", blocks_for(counts.size()), kThreads}, queue, count_split_kernel<Offset>,
         counts.data(), counts.size(), offsets.data(), batch);
}

template <typename Offset>
void bag_positions(Queue queue, std::span<float> positions, std::span<const Offset> offsets) {
  const std::size_t bags = offsets.size() - 1;
  launch({"bag_positions", blocks_for(bags), kThreads}, queue, positions_kernel<Offset>,
         positions.data(), bags, offsets.data());
}

#define MILLRACE_SPLIT(Id, Offset)                                                                \
  template void split_lengths<Id, Offset>(Queue, std::span<Offset>, std::span<const Id>,          \
                                          std::span<const Offset>, std::span<const SplitFeature>, \
                                          SplitShape);                                            \
  template void split_values<Id, Offset>(                                                         \
      Queue, std::span<Id>, std::span<float>, std::span<const Offset>, std::span<const Id>,       \
      std::span<const Offset>, std::span<const float>, std::span<const SplitFeature>, SplitShape)

MILLRACE_SPLIT(std::int32_t, std::int32_t);
MILLRACE_SPLIT(std::int32_t, std::int64_t);
MILLRACE_SPLIT(std::int64_t, std::int32_t);
MILLRACE_SPLIT(std::int64_t, std::int64_t);
#undef MILLRACE_SPLIT
template void count_split<std::int32_t>(Queue, std::span<std::int64_t>,
                                        std::span<const std::int32_t>, std::size_t);
template void count_split<std::int64_t>(Queue, std::span<std::int64_t>,
                                        std::span<const std::int64_t>, std::size_t);
template void bag_positions<std::int32_t>(Queue, std::span<float>, std::span<const std::int32_t>);
template void bag_positions<std::int64_t>(Queue, std::span<float>, std::span<const std::int64_t>);

}  // namespace millrace::sharding::cuda
