#include "millrace/pipeline/kernels/launch.cuh"
#include "sharding/kernels.hpp"

namespace millrace::sharding::cuda {
namespace {

using namespace model::cuda;

__device__ std::size_t this_thread() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::size_t thread_count() { return std::size_t{gridDim.x} * blockDim.x; }

/** Each thread takes a bag of the result: a rank, a feature, an example. */
struct Bag {
  std::size_t rank, from;
  SplitFeature feature;
};
template <typename Offset>
__device__ Bag bag_of(std::size_t i, const BagsToSplit<Offset>& bags) {
  const std::size_t row = i / bags.batch;
  const SplitFeature feature = bags.features[row % bags.features.size()];
  return {row / bags.features.size(),
          static_cast<std::size_t>(feature.key) * bags.batch + i % bags.batch, feature};
}

template <typename Id, typename Offset>
__global__ void split_lengths_kernel(SplitLengthsArguments<Id, Offset> arguments) {
  const auto& [lengths, ids, bags] = arguments;
  for (std::size_t i = this_thread(); i < lengths.size(); i += thread_count()) {
    const Bag bag = bag_of(i, bags);
    Offset count = 0;
    for (Offset at = bags.offsets[bag.from]; at < bags.offsets[bag.from + 1]; ++at) {
      count += rank_of(ids[at], bag.feature.block, bags.ranks) == bag.rank ? 1 : 0;
    }
    lengths[i] = count;
  }
}

template <typename Id, typename Offset>
__global__ void split_values_kernel(SplitValuesArguments<Id, Offset> arguments) {
  const auto& [split_ids, split_weights, split_offsets, ids, weights, bags] = arguments;
  for (std::size_t i = this_thread(); i + 1 < split_offsets.size(); i += thread_count()) {
    const Bag bag = bag_of(i, bags);
    const auto first = static_cast<Id>(bag.rank) * static_cast<Id>(bag.feature.block);
    auto to = static_cast<std::size_t>(split_offsets[i]);
    for (Offset at = bags.offsets[bag.from]; at < bags.offsets[bag.from + 1]; ++at) {
      if (rank_of(ids[at], bag.feature.block, bags.ranks) != bag.rank) continue;
      split_ids[to] = ids[at] - first;
      if (!split_weights.empty()) split_weights[to] = weights[at];
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
void split_lengths(Queue queue, const SplitLengthsArguments<Id, Offset>& arguments) {
  launch({"split_lengths", blocks_for(arguments.lengths.size()), kThreads}, queue,
         split_lengths_kernel<Id, Offset>, arguments);
}

template <typename Id, typename Offset>
void split_values(Queue queue, const SplitValuesArguments<Id, Offset>& arguments) {
  const std::size_t bags = arguments.split_offsets.size() - 1;
  launch({"split_values", blocks_for(bags), kThreads}, queue, split_values_kernel<Id, Offset>,
         arguments);
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

#define MILLRACE_SPLIT(Id, Offset)                                              \
  template void split_lengths(Queue, const SplitLengthsArguments<Id, Offset>&); \
  template void split_values(Queue, const SplitValuesArguments<Id, Offset>&)

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
