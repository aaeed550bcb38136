#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/model/dense_parameters.hpp"
#include "millrace/pipeline/model/embedding_bags.hpp"
#include "millrace/pipeline/model/position_weights.hpp"
#include "millrace/pipeline/model/sparse_nn_config.hpp"
#include "sharding/kernels.hpp"
#include "sharding/layout.hpp"

namespace millrace::sharding {

/** @brief The features of one side of a batch. */
struct ShardedFeatures {
  /** For this rank's tables and shards: the examples of all ranks. */
  const KeyedJaggedTensor& of_all;
  const KeyedJaggedTensor& own;              ///< for data-parallel tables: this rank's examples
  const BatchTensor& means;                  ///< like SparseFeatures::own_means
  BatchTensor positions;                     ///< like SparseFeatures::positions
  const std::vector<std::size_t>& examples;  ///< number of examples of each rank
};

/**
 * @brief Pooled rows, or their gradients, in transit between ranks: memory of one stream that
 * another stream uses, until a stream has waited for that use.
 */
class RowsUnderWay {
 public:
  RowsUnderWay() = default;
  ~RowsUnderWay() {
    if (used_by_) record_use(*used_by_);
  }
  RowsUnderWay(RowsUnderWay&& other) noexcept;
  RowsUnderWay& operator=(RowsUnderWay&&) = delete;

  /** @brief Declares that `stream` uses the rows from now on. */
  void lend(const Stream& stream) { used_by_ = stream; }
  /** @brief Records the end of that use. Call it after the last use is enqueued. */
  void mark(OrderedDevice& device) { device.record(there_, used_by_.value()); }
  void wait(Stream& user);
  /** @brief Makes `user` wait for the blocks, and frees the columns that were sent. */
  void arrive(StreamRef owner, Stream& user);

  Array<float> of_all;  ///< this rank's columns of the examples of all ranks, in their order
  Array<float> blocks;  ///< all columns of this rank's examples, in the layout of Side

 private:
  void record_use(StreamRef stream);

  std::optional<StreamRef> used_by_;
  Event there_;
};

/** @brief The ids of bags; for parts of bags also the position of each id in its bag. */
struct SplitBags {
  const KeyedJaggedTensor& ids;
  const BatchTensor& positions;
};

/** @brief The weight of each id's position; empty if no feature has position weights. */
struct PositionFactors {
  Array<float> of_all, own;  ///< like in ShardedFeatures
};

enum class RowsTo {
  examples,  ///< pooled rows, to the ranks that have the examples
  tables,    ///< their gradients, to the ranks that have the tables
};

/**
 * @brief One side's tables and shards of this rank. Looks them up for the examples of all ranks.
 */
class ShardedBags {
 public:
  ShardedBags(ModelContext& context, DenseParameters& parameters, const SparseNNConfig& config,
              const Side& side, ProcessGroup& group);

  /** @brief Adds position weights. Call it before the first lookup. */
  void process(DenseParameters& parameters, const PositionParameters& positions);
  /**
   * @brief Binds data-parallel tables to the dense parameters. Call it when all of these are
   * declared.
   */
  void bind(DenseParameters& parameters);

  /** @brief Returns the weight of each id's position, which is the same on all ranks. */
  [[nodiscard]] PositionFactors factors(const ShardedFeatures& features, Stream& stream);
  /** @brief Enqueues the pooling of rows. */
  [[nodiscard]] RowsUnderWay look_up(const ShardedFeatures& features,
                                     const PositionFactors& factors, Stream& stream);
  /** @brief Returns whether rows of any table are sent between ranks: the same on every rank. */
  [[nodiscard]] bool sends() const noexcept { return side_.columns_before[group_.size()] > 0; }
  /**
   * @brief Enqueues the transfer on `between_ranks`, which must be ordered after the work that
   * makes the rows.
   */
  void send(RowsUnderWay& rows, const ShardedFeatures& features, RowsTo to, Stream& between_ranks);
  /** @brief Joins blocks to pooled rows. `stream` must have waited for the blocks. */
  void join(const RowsUnderWay& rows, const ShardedFeatures& features, const PooledMatrix& pooled,
            Stream& stream);

  /** @brief Divides gradients into a block for each rank. */
  [[nodiscard]] RowsUnderWay part(const PooledMatrix& gradient, const ShardedFeatures& features,
                                  Stream& stream);
  /** @brief Allocates memory for the gradients that come from other ranks. */
  void make_room(RowsUnderWay& rows, const ShardedFeatures& features, Stream& stream);
  /**
   * @brief Waits for the gradients, and updates the tables. First adds the gradients of position
   * weights.
   */
  void update(RowsUnderWay rows, const ShardedFeatures& features, const PositionFactors& factors,
              Stream& stream);

  [[nodiscard]] EmbeddingBags& local() noexcept { return local_; }
  [[nodiscard]] EmbeddingBags& everywhere() noexcept { return everywhere_; }
  [[nodiscard]] std::size_t columns() const noexcept { return side_.pooled_columns; }

 private:
  [[nodiscard]] Array<float> room_for_own_columns(const ShardedFeatures& features,
                                                  Stream& stream) const;
  [[nodiscard]] Array<float> room_for_blocks(const ShardedFeatures& features, Stream& stream) const;
  [[nodiscard]] PooledMatrix own_columns(const RowsUnderWay& rows) const;
  [[nodiscard]] PooledMatrix last_block(const RowsUnderWay& rows, std::size_t batch) const;
  [[nodiscard]] ColumnMap column_map(const ShardedFeatures& features) const;
  void add_gradients(PositionWeights& positions, EmbeddingBags& bags, const SplitBags& features,
                     const PooledMatrix& gradient, Stream& stream);

  ModelContext& context_;
  const Side& side_;
  ProcessGroup& group_;
  EmbeddingBags local_;
  EmbeddingBags everywhere_;  ///< data-parallel tables: their weights are dense parameters
  EmbeddingBags everywhere_gradients_;  ///< the gradients of these parameters
  Parameter first_everywhere_;
  /** For local tables, for data-parallel tables. */
  std::optional<PositionWeights> positions_, own_positions_;
  Array<std::int32_t> first_source_;
  Array<ColumnSource> sources_;
  Array<std::int32_t> mean_of_;
};

}  // namespace millrace::sharding
