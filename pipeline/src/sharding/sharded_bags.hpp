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

/** @brief One side's features of a batch: of all ranks' examples, and of this rank's. */
struct ShardedFeatures {
  const KeyedJaggedTensor& of_all;           ///< of this rank's tables and shards
  const KeyedJaggedTensor& own;              ///< of data-parallel tables
  const BatchTensor& means;                  ///< as SparseFeatures::own_means
  BatchTensor positions;                     ///< as SparseFeatures::positions
  const std::vector<std::size_t>& examples;  ///< of each rank
};

/**
 * @brief Pooled rows on their way between ranks, or their gradients: memory of one stream that
 *        another stream uses, until a stream has waited for that use.
 */
class RowsUnderWay {
 public:
  RowsUnderWay() = default;
  ~RowsUnderWay() {
    if (used_by_) record_use(*used_by_);
  }
  RowsUnderWay(RowsUnderWay&& other) noexcept;
  RowsUnderWay& operator=(RowsUnderWay&&) = delete;

  /** @brief Notes that `stream` uses the rows from now on. */
  void lend(const Stream& stream) { used_by_ = stream; }
  /** @brief Records the end of that use. Call it after the last use is enqueued. */
  void mark(OrderedDevice& device) { device.record(there_, used_by_.value()); }
  void wait(Stream& user);
  /** @brief Makes `user` wait for the blocks, and frees the columns that were sent. */
  void arrive(StreamRef owner, Stream& user);

  Array<float> of_all;  ///< this rank's columns of the examples of all ranks, in their order
  Array<float> blocks;  ///< all columns of this rank's examples, as Side has it

 private:
  void record_use(StreamRef stream);

  std::optional<StreamRef> used_by_;
  Event there_;
};

/** @brief Bags, or parts of them: then with the position of each id. */
struct SplitBags {
  const KeyedJaggedTensor& ids;
  const BatchTensor& positions;
};

/** @brief The weight of each id's position; empty if no feature has position weights. */
struct PositionFactors {
  Array<float> of_all, own;  ///< as ShardedFeatures
};

enum class RowsTo {
  examples,  ///< pooled rows, to the ranks that have the examples
  tables,    ///< their gradients, to the ranks that have the tables
};

/** @brief One side's tables and shards of this rank, looked up for the examples of all ranks. */
class ShardedBags {
 public:
  ShardedBags(ModelContext& context, DenseParameters& parameters, const SparseNNConfig& config,
              const Side& side, ProcessGroup& group);

  /** @brief The weights of positions; before the first lookup. */
  void process(DenseParameters& parameters, const PositionParameters& positions);
  /** @brief Data-parallel tables: dense parameters are there when all have been declared. */
  void bind(DenseParameters& parameters);

  /** @brief Every position has the rank's own weights of it, which are those of all ranks. */
  [[nodiscard]] PositionFactors factors(const ShardedFeatures& features, Stream& stream);
  /** @brief Pools rows. */
  [[nodiscard]] RowsUnderWay look_up(const ShardedFeatures& features,
                                     const PositionFactors& factors, Stream& stream);
  /** @brief Whether any table's rows go between ranks: on every rank, or on none. */
  [[nodiscard]] bool sends() const noexcept { return side_.columns_before[group_.size()] > 0; }
  /** @brief Enqueued on `between_ranks`, which waits for their producer and for free memory. */
  void send(RowsUnderWay& rows, const ShardedFeatures& features, RowsTo to, Stream& between_ranks);
  /** @brief Puts rows together that `stream` has waited for. */
  void join(const RowsUnderWay& rows, const ShardedFeatures& features, const PooledMatrix& pooled,
            Stream& stream);

  /** @brief Parts gradients by rank. */
  [[nodiscard]] RowsUnderWay part(const PooledMatrix& gradient, const ShardedFeatures& features,
                                  Stream& stream);
  /** @brief For the gradients that come from other ranks. */
  void make_room(RowsUnderWay& rows, const ShardedFeatures& features, Stream& stream);
  /** @brief Waits for them, and updates; the gradients of position weights are added up before. */
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
  EmbeddingBags everywhere_;            ///< data-parallel: weights are dense parameters,
  EmbeddingBags everywhere_gradients_;  ///< and these are their gradients
  Parameter first_everywhere_;
  std::optional<PositionWeights> positions_, own_positions_;  ///< of local tables, of data-parallel
  Array<std::int32_t> first_source_;
  Array<ColumnSource> sources_;
  Array<std::int32_t> mean_of_;
};

}  // namespace millrace::sharding
