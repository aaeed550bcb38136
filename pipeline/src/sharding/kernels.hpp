#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "millrace/pipeline/kernels/array_view.hpp"
#include "millrace/pipeline/kernels/blas_handle.hpp"
#include "millrace/pipeline/kernels/host_device.hpp"

/// @file
/// The arguments of the kernels of sharding. A kernel with many views has a struct, which the host
/// kernel (sharding/host) and the CUDA kernel share.

namespace millrace::sharding {

using model::ArrayView;
using model::Queue;

/** @brief A feature whose ids are split by rows. */
struct SplitFeature {
  std::int64_t key = 0;    ///< key in the batch
  std::int64_t block = 1;  ///< rows of a shard
};

/** @brief A batch, its features that are split, and the number of ranks. */
template <typename Offset>
struct BagsToSplit {
  ArrayView<const SplitFeature> features;
  ArrayView<const Offset> offsets;  ///< offsets of all bags of the batch
  std::size_t batch = 0, ranks = 0;
};

/** @brief Counts the ids of each bag that each rank gets: [ranks x features x batch]. */
template <typename Id, typename Offset>
struct SplitLengthsArguments {
  ArrayView<Offset> lengths;  ///< written
  ArrayView<const Id> ids;
  BagsToSplit<Offset> bags;
};

/**
 * @brief Writes the ids rank by rank, each as a row number of that rank's shard. The ids of a bag
 * keep their order.
 */
template <typename Id, typename Offset>
struct SplitValuesArguments {
  ArrayView<Id> split_ids;         ///< written
  ArrayView<float> split_weights;  ///< written; empty: ids have no weights
  ArrayView<const Offset> split_offsets;
  ArrayView<const Id> ids;
  ArrayView<const float> weights;
  BagsToSplit<Offset> bags;
};

/** @brief The source of a pooled column: element b * columns + column of a block. */
struct ColumnSource {
  std::int32_t columns_before = 0;  ///< columns of the blocks before
  std::int32_t columns = 0;         ///< columns of the block
  std::int32_t column = 0;
};

/** @brief The columns of blocks of which each pooled column is the sum. */
struct ColumnMap {
  /** [columns + 1]: index of each column's first source. */
  ArrayView<const std::int32_t> first_source;
  ArrayView<const ColumnSource> sources;
  /** For each column the index of its factor in `means`, or -1; empty: no column has one. */
  ArrayView<const std::int32_t> mean_of;
  ArrayView<const float> means;  ///< [features x batch]
};

/** @brief Pooled rows that are a part of wider rows: [batch x columns], `stride` floats apart. */
struct JoinedShape {
  std::size_t batch = 0, columns = 0;
  std::size_t stride = 0, column = 0;  ///< width of the wider rows, and first column of this part
};

/**
 * @brief Makes pooled rows from blocks. Parts of a column that come from several ranks are added.
 */
struct JoinColumnsArguments {
  ArrayView<float> pooled;  ///< written
  ArrayView<const float> blocks;
  ColumnMap columns;
  JoinedShape shape;
};

/** @brief The reverse: each block gets its columns of the gradient. */
struct PartColumnsArguments {
  ArrayView<float> blocks;  ///< written
  ArrayView<const float> pooled;
  ColumnMap columns;
  JoinedShape shape;
};

/** @brief Returns the rank that has the row; for ids of no row, the first or the last rank. */
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
/** @brief Counts the ids of each rank and feature. */
template <typename Offset>
void count_split(Queue queue, std::span<std::int64_t> counts, std::span<const Offset> offsets,
                 std::size_t batch);

/** @brief Writes for each id its position in its bag. */
template <typename Offset>
void bag_positions(Queue queue, std::span<float> positions, std::span<const Offset> offsets);

/**
 * @brief Writes 1 / (number of ids) for each bag of a key, from bag `first` on; 0 for an empty bag.
 */
template <typename Offset>
void bag_means(Queue queue, std::span<float> means, std::span<const Offset> offsets,
               std::size_t first);

void join_columns(Queue queue, const JoinColumnsArguments& arguments);
void part_columns(Queue queue, const PartColumnsArguments& arguments);

}  // namespace cuda

}  // namespace millrace::sharding
