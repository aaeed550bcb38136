#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "millrace/pipeline/model/dense_parameters.hpp"
#include "millrace/pipeline/model/embedding_bags.hpp"
#include "millrace/pipeline/model/position_weights.hpp"
#include "millrace/pipeline/model/sparse_nn_config.hpp"
#include "millrace/pipeline/model/train_model.hpp"

namespace millrace {

/** @brief A lookup of PooledEmbeddings: what the dense part of a model reads and leaves. */
struct PooledLookup : TableLookup {
  /** How far it is. Each of these happens once. */
  enum class Stage { prefetched, looked_up, forward, backward, updated };

  explicit PooledLookup(StreamRef of) : stream(of) {}

  StreamRef stream;  ///< of the prefetch; then of the lookup, and of the update
  Stage stage = Stage::prefetched;
  std::size_t batch_size = 0;
  float share = 1;        ///< of the examples of all ranks, those of this one
  Array<float> pooled;    ///< [batch x columns], from `receive` until backward
  Array<float> gradient;  ///< of `pooled`, of main, from backward to the update
  Array<float> values;    ///< of the dense parameters, as it read them, if the model keeps those
};

/**
 * @brief The embedding side of a SparseNN: rows of all features of this rank's examples, pooled,
 *        and the update of the tables that they came from, wherever those are.
 *
 * Calls enqueue on the stream given, in the same order on every rank. Pooled rows lie feature by
 * feature, those without weights before those with.
 */
class PooledEmbeddings {
 public:
  virtual ~PooledEmbeddings() = default;

  [[nodiscard]] virtual std::size_t columns() const noexcept = 0;   ///< of an example's pooled rows
  [[nodiscard]] virtual std::size_t features() const noexcept = 0;  ///< whose rows these are

  /**
   * @brief Begins a lookup: rows of cached tables are brought, and held until it goes.
   * @throws std::invalid_argument if the features are not those of the tables; out_of_memory
   */
  [[nodiscard]] virtual std::unique_ptr<PooledLookup> prefetch(const SparseFeatures& features,
                                                               Stream& stream) = 0;
  /** @brief Pools the rows. @throws out_of_memory: nothing was looked up then */
  virtual void look_up(PooledLookup& lookup, Stream& stream) = 0;
  /**
   * @brief From here on `lookup.pooled` is what `stream` reads: it waits for what is under way on
   *        streams of the embeddings' own, and its use of memory that is another's is recorded.
   */
  virtual void receive(PooledLookup& lookup, Stream& stream) = 0;
  /**
   * @brief Consumes `lookup.gradient`, whose use by `stream`, that of the lookup, is recorded.
   *        Gradients of dense parameters that lookups read are added up here.
   */
  virtual void update(PooledLookup& lookup, Stream& stream) = 0;

  /** @brief Behind what the last update sent to other ranks; not recorded if it sent nothing. */
  [[nodiscard]] virtual Event sent() const { return {}; }

  /** @brief As `TrainModel::dense_parameters_of_lookups`. */
  [[nodiscard]] virtual std::string dense_parameters() const = 0;

  /** @brief The tables of this rank, for ids without weights and with. */
  [[nodiscard]] virtual EmbeddingBags& bags() noexcept = 0;
  [[nodiscard]] virtual EmbeddingBags& weighted_bags() noexcept = 0;
  /** @brief Those that every rank has, bound to dense parameters: likewise; null: there are none.
   */
  [[nodiscard]] virtual EmbeddingBags* dense_bags() noexcept { return nullptr; }
  [[nodiscard]] virtual EmbeddingBags* weighted_dense_bags() noexcept { return nullptr; }

 protected:
  PooledEmbeddings() = default;
  PooledEmbeddings(const PooledEmbeddings&) = default;
  PooledEmbeddings& operator=(const PooledEmbeddings&) = default;
};

/** @brief Makes the embedding side of a model, whose dense parameters may still be added to. */
using MakeEmbeddings = std::function<std::unique_ptr<PooledEmbeddings>(
    ModelContext& context, DenseParameters& parameters, const SparseNNConfig& config)>;

/** @brief All tables on one rank. */
class LocalEmbeddings final : public PooledEmbeddings {
 public:
  LocalEmbeddings(ModelContext& context, DenseParameters& parameters, const SparseNNConfig& config);

  [[nodiscard]] static std::unique_ptr<PooledEmbeddings> make(ModelContext& context,
                                                              DenseParameters& parameters,
                                                              const SparseNNConfig& config);

  std::size_t columns() const noexcept override {
    return bags_.columns() + weighted_bags_.columns();
  }
  std::size_t features() const noexcept override {
    return bags_.features().size() + weighted_bags_.features().size();
  }
  std::unique_ptr<PooledLookup> prefetch(const SparseFeatures& features, Stream& stream) override;
  void look_up(PooledLookup& lookup, Stream& stream) override;
  void receive(PooledLookup& lookup, Stream& stream) override;
  void update(PooledLookup& lookup, Stream& stream) override;
  std::string dense_parameters() const override;
  EmbeddingBags& bags() noexcept override { return bags_; }
  EmbeddingBags& weighted_bags() noexcept override { return weighted_bags_; }

 private:
  struct Lookup;
  [[nodiscard]] std::size_t batch_size(const SparseFeatures& features) const;

  ModelContext& context_;
  EmbeddingBags bags_, weighted_bags_;
  PositionWeights positions_;
};

}  // namespace millrace
