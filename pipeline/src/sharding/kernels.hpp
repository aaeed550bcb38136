#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/blas_handle.hpp"
#include "model/host_device.hpp"

/// @file
/// What the kernels of sharding take. Host kernels are in sharding/host, those of CUDA do the same.

namespace millrace::sharding {

/** @brief A feature whose ids are split by rows. */
struct SplitFeature {
  std::int64_t key = 0;    ///< of the batch
  std::int64_t block = 1;  ///< rows of a shard
};

struct SplitShape {
  std::size_t batch = 0, ranks = 0;
};

/** @brief Where a pooled column comes from: element b * columns + column of a block. */
struct ColumnSource {
  std::int32_t columns_before = 0;  ///< of the blocks before
  std::int32_t columns = 0;         ///< of the block
  std::int32_t column = 0;
};

/** @brief Of pooled rows that are a part of wider ones: [batch x columns], each `stride` apart. */
struct JoinedShape {
  std::size_t batch = 0, columns = 0;
  std::size_t stride = 0, column = 0;  ///< of the wider rows; where this part begins in them
};

/** @brief The rank that has the row; of ids that no table has, the first or the last. */
[[nodiscard]] MILLRACE_HOST_DEVICE inline std::size_t rank_of(std::int64_t id, std::int64_t block,
                                                              std::size_t ranks) {
  if (id < 0) return 0;
  const auto rank = static_cast<std::size_t>(id / block);
  return rank < ranks ? rank : ranks - 1;
}

using model::Queue;

namespace cuda {

/** @brief Of each rank's ids in each bag, how many: [ranks x features x batch]. */
template <typename Id, typename Offset>
void split_lengths(Queue queue, std::span<Offset> lengths, std::span<const Id> ids,
                   std::span<const Offset> offsets, std::span<const SplitFeature> features,
                   SplitShape shape);
/** @brief The ids behind each other, each as its rank counts its rows; order is kept in a bag. */
template <typename Id, typename Offset>
void split_values(Queue queue, std::span<Id> out, std::span<float> out_weights,
                  std::span<const Offset> out_offsets, std::span<const Id> ids,
                  std::span<const Offset> offsets, std::span<const float> weights,
                  std::span<const SplitFeature> features, SplitShape shape);
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

/**
 * @brief Pooled rows from the blocks: columns that several ranks have a part of are added up.
 * @param mean_of  of each column, which of `means` [features x batch] it is multiplied by, or -1;
 *                 empty: none is
 */
void join_columns(Queue queue, std::span<float> pooled, std::span<const float> blocks,
                  std::span<const std::int32_t> first_source, std::span<const ColumnSource> sources,
                  std::span<const std::int32_t> mean_of, std::span<const float> means,
                  JoinedShape shape);
/** @brief The reverse: every block gets its columns of the gradient. */
void part_columns(Queue queue, std::span<float> blocks, std::span<const float> pooled,
                  std::span<const std::int32_t> first_source, std::span<const ColumnSource> sources,
                  std::span<const std::int32_t> mean_of, std::span<const float> means,
                  JoinedShape shape);

}  // namespace cuda

}  // namespace millrace::sharding
