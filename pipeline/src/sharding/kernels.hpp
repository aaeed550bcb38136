#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "millrace/pipeline/kernels/array_view.hpp"
#include "millrace/pipeline/kernels/blas_handle.hpp"
#include "millrace/pipeline/kernels/host_device.hpp"

/// @file
/// What the kernels of sharding take: a struct for each that takes many views, the same for the
/// host kernel (sharding/host) and the CUDA kernel.

namespace millrace::sharding {

using model::ArrayView;
using model::Queue;

/** @brief A feature whose ids are split by rows. */
struct SplitFeature {
  std::int64_t key = 0;    ///< of the batch
  std::int64_t block = 1;  ///< rows of a shard
};

/** @brief A batch of which some features are split, and among how many ranks. */
template <typename Offset>
struct BagsToSplit {
  ArrayView<const SplitFeature> features;
  ArrayView<const Offset> offsets;  ///< of all bags of the batch
  std::size_t batch = 0, ranks = 0;
};

/** @brief How many of a bag's ids each rank gets: [ranks x features x batch]. */
template <typename Id, typename Offset>
struct SplitLengthsArguments {
  ArrayView<Offset> lengths;  ///< written
  ArrayView<const Id> ids;
  BagsToSplit<Offset> bags;
};

/** @brief The ids of each rank one after the other, each as its rank counts its rows. Ids of a bag
 *         keep their order. */
template <typename Id, typename Offset>
struct SplitValuesArguments {
  ArrayView<Id> split_ids;         ///< written
  ArrayView<float> split_weights;  ///< written; none: ids have no weights
  ArrayView<const Offset> split_offsets;
  ArrayView<const Id> ids;
  ArrayView<const float> weights;
  BagsToSplit<Offset> bags;
};

/** @brief Where a pooled column comes from: element b * columns + column of a block. */
struct ColumnSource {
  std::int32_t columns_before = 0;  ///< of the blocks before
  std::int32_t columns = 0;         ///< of the block
  std::int32_t column = 0;
};

/** @brief Which columns of the blocks each pooled column is the sum of. */
struct ColumnMap {
  ArrayView<const std::int32_t> first_source;  ///< [columns + 1]: where its sources begin
  ArrayView<const ColumnSource> sources;
  /** For each column, which of `means` it is multiplied by, or -1; none: no column is. */
  ArrayView<const std::int32_t> mean_of;
  ArrayView<const float> means;  ///< [features x batch]
};

/** @brief Pooled rows that are a part of wider ones: [batch x columns], each `stride` apart. */
struct JoinedShape {
  std::size_t batch = 0, columns = 0;
  std::size_t stride = 0, column = 0;  ///< of the wider rows; where this part begins in them
};

/** @brief Pooled rows from the blocks: columns that several ranks have a part of are added up. */
struct JoinColumnsArguments {
  ArrayView<float> pooled;  ///< written
  ArrayView<const float> blocks;
  ColumnMap columns;
  JoinedShape shape;
};

/** @brief The reverse: every block gets its columns of the gradient. */
struct PartColumnsArguments {
  ArrayView<float> blocks;  ///< written
  ArrayView<const float> pooled;
  ColumnMap columns;
  JoinedShape shape;
};

/** @brief The rank that has the row; of ids that no table has, the first or the last. */
[[nodiscard]] MILLRACE_HOST_DEVICE inline std::size_t rank_of(std::int64_t id, std::int64_t block,
                                                              std::size_t ranks) {
  if (id < 0) return 0;
  const auto rank = static_cast<std::size_t>(id / block);
  return rank < ranks ? rank : ranks - 1;
}

namespace cuda {

template <typename Id, typename Offset>
void split_lengths(Queue queue, const SplitLengthsArguments<Id, Offset>& arguments);
template <typename Id, typename Offset>
void split_values(Queue queue, const SplitValuesArguments<Id, Offset>& arguments);
/** @brief Ids of each rank and feature. */
template <typename Offset>
void count_split(Queue queue, std::span<std::int64_t> counts, std::span<const Offset> offsets,
                 std::size_t batch);

/** @brief Of each id, where it is in its bag. */
template <typename Offset>
void bag_positions(Queue queue, std::span<float> positions, std::span<const Offset> offsets);

/** @brief 1 / ids of each bag of a key, from bag `first` on; 0 of an empty one. */
template <typename Offset>
void bag_means(Queue queue, std::span<float> means, std::span<const Offset> offsets,
               std::size_t first);

void join_columns(Queue queue, const JoinColumnsArguments& arguments);
void part_columns(Queue queue, const PartColumnsArguments& arguments);

}  // namespace cuda

}  // namespace millrace::sharding
