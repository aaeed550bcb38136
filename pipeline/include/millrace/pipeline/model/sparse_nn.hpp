#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/pipeline/model/mlp.hpp"
#include "millrace/pipeline/model/pooled_embeddings.hpp"
#include "millrace/pipeline/model/sparse_nn_config.hpp"
#include "millrace/pipeline/model/train_model.hpp"

namespace millrace {

/**
 * @brief How ranks that each train on their own examples come to one gradient: that of the mean
 *        over the examples of all, of which each lookup has a share (`PooledLookup::share`).
 *
 * Enqueues the sum over the ranks, in place. None: there is one rank.
 */
using DenseReduction = std::function<void(float* gradients, std::size_t size, StreamRef stream)>;

/**
 * @brief What a lookup that was made ahead gave. Its batch, looked up again after a later update or
 *        in another process, goes on with that: see `SparseNN::give_up` and `take_up`. Of main.
 */
struct AheadLookup {
  Array<float> pooled;  ///< [batch x columns], of this rank's examples
  Array<float> values;  ///< of the dense parameters, where lookups read them; else empty
};

/**
 * @brief A recommender model in the shape of DLRM: embeddings, an MLP over dense features, their
 *        interaction, an MLP over that, one logit; binary cross-entropy.
 *
 *   dense  [B x D]  --- dense arch ---------------.
 *   sparse ids      --- position weights, pooling --+-- interaction -- over arch -- logit -- loss
 *   weighted ids    --- pooling ------------------'
 */
class SparseNN final : public TrainModel {
 public:
  /**
   * @param embeddings  makes the tables: all of them here, or this rank's share
   * @param reduction   of the gradients of the dense parameters, before their optimizer
   * @throws std::invalid_argument if widths do not fit; as EmbeddingBags, PositionWeights
   */
  SparseNN(ModelContext& context, const SparseNNConfig& config,
           const MakeEmbeddings& embeddings = LocalEmbeddings::make, DenseReduction reduction = {});

  void zero_gradients() override;
  std::unique_ptr<TableLookup> prefetch(const SparseFeatures& features, Stream& stream) override;
  void look_up_prefetched(TableLookup& lookup, Stream& stream) override;
  /** @throws std::invalid_argument if the features are not the model's */
  std::unique_ptr<TableLookup> look_up(const SparseFeatures& features, Stream& stream) override;
  /** @throws std::invalid_argument if shapes disagree with the model's or with each other;
   *          std::logic_error for a lookup that was through a forward already */
  void forward(const InputTensors& input, TableLookup& lookup) override;
  /** @throws std::logic_error if the last forward was not this lookup's */
  void backward(TableLookup& lookup) override;
  /** @throws std::logic_error without a backward before, and the second time */
  void update_tables(TableLookup& lookup, Stream& stream) override;
  void optimizer_step() override;
  void swap_gradients(Buffer& other) override { parameters_.swap_gradients(other); }
  void abandon() noexcept override;
  std::string dense_parameters_of_lookups() const override {
    return embeddings_->dense_parameters();
  }

  /** @brief Lookups are made ahead, and may be given up: they keep the dense parameters read. */
  void keep_values_of_lookups() noexcept { keeps_values_ = true; }
  /** @brief Takes what a lookup gave; the lookup itself can only be dropped after that. */
  [[nodiscard]] AheadLookup give_up(TableLookup& lookup);
  /** @brief The next lookup and the next forward, of the same batch, are with these. */
  void take_up(AheadLookup ahead) noexcept { ahead_ = std::move(ahead); }
  /** @brief Of an example's pooled rows. */
  [[nodiscard]] std::size_t pooled_columns() const noexcept { return columns_; }

  /**
   * @brief Mean loss of the last forward; of no examples 0. Waits for main.
   * @throws std::out_of_range if an id was out of range since this was last asked: table and value
   */
  [[nodiscard]] float loss();
  /**
   * @brief Enqueues a copy of the last forward's mean loss, on main; ids are not asked after.
   * @param to  pinned memory
   */
  void copy_loss(float* to);
  /** @brief Of the last forward, one for each example. Waits for main. @throws as `loss` */
  [[nodiscard]] std::vector<float> logits();

  /**
   * @brief What a checkpoint keeps. To be read and written while main is idle, or ordered so.
   *
   * With cached tables it is what was there at the call, and their caches are empty: ask again
   * after more steps.
   */
  [[nodiscard]] ModelState state();

  [[nodiscard]] EmbeddingBags& bags() noexcept { return embeddings_->bags(); }
  [[nodiscard]] EmbeddingBags& weighted_bags() noexcept { return embeddings_->weighted_bags(); }
  /** @brief Tables that are dense parameters, the same on every rank; null: there are none. */
  [[nodiscard]] EmbeddingBags* dense_bags() noexcept { return embeddings_->dense_bags(); }
  [[nodiscard]] EmbeddingBags* weighted_dense_bags() noexcept {
    return embeddings_->weighted_dense_bags();
  }
  [[nodiscard]] DenseParameters& parameters() noexcept { return parameters_; }

 private:
  void look_up_as_ahead(PooledLookup& lookup, Stream& stream);
  void check(const InputTensors& input, const PooledLookup& lookup) const;
  void keep(const InputTensors& input);
  void interact(const Array<float>& pooled);
  void lose(const BatchTensor& labels, float share);
  void reduce_gradients();
  [[nodiscard]] Array<float> interact_backward(const Array<float>& gradient, PooledLookup& lookup);
  void check_ids();

  ModelContext& context_;
  const std::size_t dense_features_;
  const Interaction interaction_;
  const DenseReduction reduction_;
  std::optional<Stream> reduce_on_;  ///< if there are other ranks
  Event gradients_there_;
  DenseParameters parameters_;
  const std::unique_ptr<PooledEmbeddings> embeddings_;
  Mlp dense_arch_;
  const std::size_t columns_;  ///< pooled, of an example
  Mlp over_arch_;

  bool keeps_values_ = false;
  std::optional<AheadLookup> ahead_;  ///< of the batch that is looked up next

  // Of the last forward.
  std::size_t batch_ = 0;
  bool kept_ = false;
  const TableLookup* forwarded_ = nullptr;
  Array<float> dense_, interacted_, dlogits_;
  Array<float> logits_, loss_;
};

}  // namespace millrace
