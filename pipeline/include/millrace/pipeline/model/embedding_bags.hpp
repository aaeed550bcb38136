#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"
#include "millrace/pipeline/model/model_context.hpp"
#include "millrace/pipeline/model/model_state.hpp"
#include "millrace/pipeline/model/optimizer.hpp"
#include "millrace/pipeline/model/row_update.hpp"
#include "millrace/pipeline/model/table_cache.hpp"

namespace millrace {

namespace model {
struct BatchBags;
class ExpectedRows;
template <typename T>
struct TableWeights;
template <typename T>
struct UpdatedTables;
}  // namespace model

/** @brief How the rows of one bag become one pooled row. W[i] is row i of the table. */
enum class Pooling {
  sum,   ///< the sum of s_i W[id_i], where s_i is the id's weight, or 1
  mean,  ///< that sum divided by the number of ids; 0 for a bag without ids
};

/** @brief One embedding table, or one shard of it. */
struct TableConfig {
  std::string name;
  std::size_t rows = 0;
  std::size_t width = 0;  ///< floats of a row
  Pooling pooling = Pooling::sum;
  std::vector<std::string> features;  ///< the features that are looked up in this table
  std::size_t whole_rows = 0;         ///< if this is a shard: rows of the whole table; 0 otherwise
  std::size_t first_row = 0;  ///< if this is a shard: number of its first row in the whole table
};

/** @brief How tables are initialized, updated and stored. */
struct EmbeddingOptions {
  Optimizer optimizer;
  std::uint64_t seed = 1;                 ///< seed of the initial weights
  RowUpdateObserver* observer = nullptr;  ///< not owned
  /** The caller passes the weights to `bind`. They are neither allocated nor initialized here. */
  bool bound = false;
  /** Tables are in pinned host memory, with a cache on the device. Not together with `bound`. */
  std::optional<TableCache> cache{};
};

/** @brief Pooled rows [batch x columns], or their gradient, as columns of a wider matrix. */
struct PooledMatrix {
  float* data = nullptr;
  std::size_t stride = 0;  ///< columns of the whole matrix
  std::size_t column = 0;  ///< first column of this part
};

/** @brief An id for which its table has no row. */
struct InvalidId {
  std::string table, feature;
  std::int64_t value = 0;
  std::size_t rows = 0;
};

/**
 * @brief Embedding tables that are looked up and updated together, with one kernel for all tables.
 *
 * Initial weights are uniform in ±1/sqrt(rows), as in TorchRec. They depend on the seed, the
 * table's name and the row's place in the whole table, so they are the same on every device and for
 * every sharding.
 *
 * A lookup pools the rows of each bag in the order of its ids. An update combines backward and
 * optimizer, and its result does not depend on timing: a stable sort orders ids by row, the
 * gradients of a row are added in that order, and the optimizer is applied once to each row.
 *
 * An id out of range counts as a row of zeros that no update changes. The device records the first
 * such id; `invalid_id` returns it.
 *
 * Results with cached tables are bit-identical. Kernels read and update a row at its current place,
 * in the cache or in host memory. Only `prefetch` moves rows into the cache.
 */
class EmbeddingBags {
 public:
  /**
   * @brief Allocates the tables, and enqueues their initialization on the main stream.
   * @throws std::invalid_argument if a table or a feature occurs twice, or a table has no rows, no
   *         width or no features
   * @throws out_of_memory
   */
  EmbeddingBags(ModelContext& context, std::vector<TableConfig> tables,
                const EmbeddingOptions& options);
  /** @brief If tables are cached, makes the host wait until all enqueued use of them is done. */
  ~EmbeddingBags();
  EmbeddingBags(const EmbeddingBags&) = delete;
  EmbeddingBags& operator=(const EmbeddingBags&) = delete;

  /** @brief The features of all tables, in order. A batch must have these keys. */
  [[nodiscard]] const std::vector<std::string>& features() const noexcept { return features_; }
  /** @brief Columns of the pooled rows of all features together. */
  [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
  [[nodiscard]] std::span<const std::size_t> widths() const noexcept { return widths_; }
  [[nodiscard]] std::span<const TableView> tables() const noexcept { return views_; }

  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }  ///< updates so far

  [[nodiscard]] bool cached() const noexcept { return cache_ != nullptr; }
  [[nodiscard]] bool bound() const noexcept { return options_.bound; }
  /**
   * @brief Enqueues copies of a batch's rows into the cache, before its lookup and its update.
   *        Does nothing if tables are not cached.
   *
   * The caller orders this call, like every other use of the tables, with the uses before and after
   * it. Rows of held batches are not evicted. If all slots of a cache set hold such rows, a new row
   * remains in host memory.
   * @return holds the batch's rows in the cache until it is destroyed
   * @throws std::invalid_argument like `look_up`
   * @throws out_of_memory, DeviceError  nothing was changed
   */
  [[nodiscard]] HeldRows prefetch(const KeyedJaggedTensor& batch, StreamRef stream);

  /**
   * @brief Enqueues the lookups of a batch. Writes the pooled row of every bag, even of an empty
   * bag.
   * @param factors  [N]: the weight of each id; nullptr: the batch's own weights, or 1
   * @param pooled   [batch x columns()], written
   * @throws std::invalid_argument if the batch has other keys than `features()`
   */
  void look_up(const KeyedJaggedTensor& batch, const float* factors, const PooledMatrix& pooled,
               StreamRef stream);

  /**
   * @brief Enqueues the gradients of the factors. Call it before `update`, because it reads the
   * weights.
   * @param gradient  gradient of the pooled rows
   * @param out       [N], written
   */
  void factor_gradients(const KeyedJaggedTensor& batch, const PooledMatrix& gradient, float* out,
                        StreamRef stream);

  /**
   * @brief Enqueues the fused update: the gradients of the batch's rows, and one optimizer step.
   * @param batch     see `look_up`
   * @param factors   see `look_up`
   * @param gradient  gradient of the pooled rows
   */
  void update(const KeyedJaggedTensor& batch, const float* factors, const PooledMatrix& gradient,
              StreamRef stream);

  /**
   * @brief Sets the memory of the weights, for the option `bound`. Call it once, before the first
   * lookup.
   * @param weights  the weights of all tables, not owned; each table begins at the next multiple of
   *                 16 floats
   */
  void bind(float* weights);

  /**
   * @brief Adds the tables and their optimizer state, for a checkpoint, to `state`. Names begin
   * with `prefix`.
   *
   * For cached tables this enqueues, on the main stream, copies of all cached rows back to host
   * memory, and empties the cache. Host memory then has every row, and rows written there take
   * effect. Batches that were prefetched before read their rows from host memory.
   */
  void add_state(ModelState& state, const std::string& prefix);
  /** @brief Adds an observer, which is called after the existing ones. Not owned. */
  void add_observer(RowUpdateObserver& observer) { observers_.push_back(&observer); }
  void remove_observer(RowUpdateObserver& observer) { std::erase(observers_, &observer); }

  /** @brief Returns the type of row numbers for observers: int64 from 2^31 rows on. */
  [[nodiscard]] IndexType row_type() const noexcept;
  /** @brief Returns the cache's arrays; empty if tables are not cached. */
  [[nodiscard]] SlotView slot_view() const noexcept;
  /**
   * @brief Enqueues a search for the slot of each row, as of the time when `stream` reaches the
   * search.
   * @param rows   [*count] in device memory, of `row_type()`, numbered across the tables
   * @param most   upper bound of *count
   * @return [most] slots, allocated on `stream`; negative for a row that is not in the cache. Empty
   *         if tables are not cached.
   */
  [[nodiscard]] Array<std::int32_t> locate(const void* rows, std::size_t most,
                                           const std::uint32_t* count, StreamRef stream);

  /**
   * @brief Makes the host wait for `stream` and for all lookups so far.
   * @return the first id out of range since the last call; nothing if there was none
   */
  [[nodiscard]] std::optional<InvalidId> invalid_id(StreamRef stream);

  /**
   * @brief Returns the counts of all prefetches so far. Makes the host wait for them and for
   * `stream`.
   */
  [[nodiscard]] CacheCounts cache_counts(StreamRef stream);
  /**
   * @brief Returns the numbers of the cached rows, across all tables and unordered. Waits like
   * `cache_counts`.
   *
   * For checks of the cache: a row that is wrongly in two slots occurs twice here, and `locate`
   * finds only one of them.
   */
  [[nodiscard]] std::vector<std::int64_t> cached_rows(StreamRef stream);
  [[nodiscard]] std::size_t cache_slots() const noexcept;

 private:
  void rows_will_move(StreamRef stream);
  void lay_out();
  void allocate_tables();
  void initialize();
  [[nodiscard]] model::BatchBags bags_of(const KeyedJaggedTensor& batch,
                                         const float* factors) const;
  /** `slots` has the slot of each id or row, and is empty if tables are not cached. */
  [[nodiscard]] model::TableWeights<float> weights_at(const Array<std::int32_t>& slots) const;
  [[nodiscard]] model::UpdatedTables<float> rows_at(const Array<std::int32_t>& slots) const;
  [[nodiscard]] double row_bytes(const KeyedJaggedTensor& batch) const;
  [[nodiscard]] model::ExpectedRows expected(const KeyedJaggedTensor& batch) const;
  template <typename Id, typename Offset, typename Key>
  void update_rows(const model::BatchBags& bags, const PooledMatrix& gradient, StreamRef stream);

  ModelContext& context_;
  std::vector<TableConfig> configs_;
  EmbeddingOptions options_;
  std::vector<std::string> features_;
  std::vector<std::size_t> widths_;    ///< of each feature
  std::vector<std::size_t> table_of_;  ///< of each feature
  std::size_t columns_ = 0, scalars_ = 0, rows_ = 0;
  std::uint64_t steps_ = 0;
  std::optional<StreamRef> looked_up_on_;  ///< stream of the last lookup
  Buffer lookups_;                         ///< model::Lookup of each feature
  Buffer bad_;                             ///< one model::BadId
  /** Used if tables are neither cached nor bound. */
  Array<float> own_weights_, own_first_moment_, own_second_moment_;
  std::unique_ptr<model::RowCache> cache_;  ///< nullptr if tables are not cached
  /** The arrays of all tables, on the device or in host memory. */
  float *weights_ = nullptr, *first_moment_ = nullptr, *second_moment_ = nullptr;
  std::size_t first_moment_size_ = 0, second_moment_size_ = 0;
  std::vector<TableView> views_;
  std::vector<RowUpdateObserver*> observers_;
};

}  // namespace millrace
