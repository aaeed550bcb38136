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

/** @brief A lookup of PooledEmbeddings: the pooled rows of a batch and their gradient. */
struct PooledLookup : TableLookup {
  /** The last stage that was done. Each stage happens once. */
  enum class Stage { prefetched, looked_up, forward, backward, updated };

  explicit PooledLookup(StreamRef of) : stream(of) {}

  StreamRef stream;  ///< stream of the prefetch; later of the lookup and of the update
  Stage stage = Stage::prefetched;
  std::size_t batch_size = 0;
  float share = 1;        ///< fraction of the examples of all ranks that this rank has
  Array<float> pooled;    ///< [batch x columns]; from `receive` until backward
  Array<float> gradient;  ///< gradient of `pooled`, owned by main; from backward until the update
  Array<float> values;    ///< the dense parameters as the lookup read them, if the model keeps them
};

/**
 * @brief The embedding part of a SparseNN: pools the rows of all features for this rank's examples,
 *        and updates the tables, on whichever rank they are.
 *
 * Calls enqueue on the given stream, in the same order on every rank. The pooled rows are in the
 * order of features, features without weights first.
 */
class PooledEmbeddings {
 public:
  virtual ~PooledEmbeddings() = default;

  [[nodiscard]] virtual std::size_t columns() const noexcept = 0;   ///< pooled columns per example
  [[nodiscard]] virtual std::size_t features() const noexcept = 0;  ///< number of features

  /**
   * @brief Begins a lookup: fetches rows of cached tables, which stay in the cache until the lookup
   *        is destroyed.
   * @throws std::invalid_argument if the features are not those of the tables; out_of_memory
   */
  [[nodiscard]] virtual std::unique_ptr<PooledLookup> prefetch(const SparseFeatures& features,
                                                               Stream& stream) = 0;
  /** @brief Enqueues the pooling of the rows. @throws out_of_memory: nothing was looked up */
  virtual void look_up(PooledLookup& lookup, Stream& stream) = 0;
  /**
   * @brief Makes `lookup.pooled` available to `stream`.
   *
   * The stream waits for work on the embeddings' own streams, and its use of memory of another
   * stream is recorded.
   */
  virtual void receive(PooledLookup& lookup, Stream& stream) = 0;
  /**
   * @brief Enqueues the update of the tables; consumes `lookup.gradient`.
   *
   * Also adds the gradients of dense parameters that lookups read.
   * @param stream  the stream of the lookup; its use of the gradient is recorded
   */
  virtual void update(PooledLookup& lookup, Stream& stream) = 0;

  /** @brief An event after the last update's data was sent to other ranks; not recorded if nothing
   *         was sent. */
  [[nodiscard]] virtual Event sent() const { return {}; }

  /** @brief See `TrainModel::dense_parameters_of_lookups`. */
  [[nodiscard]] virtual std::string dense_parameters() const = 0;

  /** @brief The tables of this rank for ids without weights. */
  [[nodiscard]] virtual EmbeddingBags& bags() noexcept = 0;
  /** @brief The tables of this rank for ids with weights. */
  [[nodiscard]] virtual EmbeddingBags& weighted_bags() noexcept = 0;
  /** @brief The data-parallel tables for ids without weights; nullptr if there are none. */
  [[nodiscard]] virtual EmbeddingBags* dense_bags() noexcept { return nullptr; }
  /** @brief The data-parallel tables for ids with weights; nullptr if there are none. */
  [[nodiscard]] virtual EmbeddingBags* weighted_dense_bags() noexcept { return nullptr; }

 protected:
  PooledEmbeddings() = default;
  PooledEmbeddings(const PooledEmbeddings&) = default;
  PooledEmbeddings& operator=(const PooledEmbeddings&) = default;
};

/** @brief Makes the embedding part of a model; it may add dense parameters to `parameters`. */
using MakeEmbeddings = std::function<std::unique_ptr<PooledEmbeddings>(
    ModelContext& context, DenseParameters& parameters, const SparseNNConfig& config)>;

/** @brief The embedding part of a model with all tables on one rank. */
class LocalEmbeddings final : public PooledEmbeddings {
 public:
  LocalEmbeddings(ModelContext& context, DenseParameters& parameters, const SparseNNConfig& config);

  [[nodiscard]] static std::unique_ptr<PooledEmbeddings> make(ModelContext& context,
                                                              DenseParameters& parameters,
                                                              const SparseNNConfig& config);

  [[nodiscard]] std::size_t columns() const noexcept override {
    return bags_.columns() + weighted_bags_.columns();
  }
  [[nodiscard]] std::size_t features() const noexcept override {
    return bags_.features().size() + weighted_bags_.features().size();
  }
  std::unique_ptr<PooledLookup> prefetch(const SparseFeatures& features, Stream& stream) override;
  void look_up(PooledLookup& lookup, Stream& stream) override;
  void receive(PooledLookup& lookup, Stream& stream) override;
  void update(PooledLookup& lookup, Stream& stream) override;
  [[nodiscard]] std::string dense_parameters() const override;
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
