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
 * @brief Enqueues the sum of the dense gradients over the ranks, in place; empty for one rank.
 *
 * Together with `PooledLookup::share` it gives the gradient of the mean over the examples of all
 * ranks.
 */
using DenseReduction = std::function<void(float* gradients, std::size_t size, StreamRef stream)>;

/**
 * @brief The result of a lookup that was made ahead of its step, owned by main.
 *
 * When the batch is looked up again, after a later update or in another process, the step can
 * continue with this result: see `SparseNN::give_up` and `take_up`.
 */
struct AheadLookup {
  Array<float> pooled;  ///< [batch x columns], for this rank's examples
  Array<float> values;  ///< the dense parameters that the lookup read; empty if it read none
};

/**
 * @brief A recommender model with the structure of DLRM: embeddings, an MLP over the dense
 *        features, their interaction, an MLP over the interaction, and one logit. The loss is the
 *        binary cross-entropy.
 *
 *   dense  [B x D]  --- dense arch ---------------.
 *   sparse ids      --- position weights, pooling --+-- interaction -- over arch -- logit -- loss
 *   weighted ids    --- pooling ------------------'
 */
class SparseNN final : public TrainModel {
 public:
  /**
   * @param context     outlives the model
   * @param embeddings  makes all tables, or this rank's part of them
   * @param reduction   sums the dense gradients over the ranks, before the dense optimizer
   * @throws std::invalid_argument if widths do not fit together; otherwise like EmbeddingBags and
   * PositionWeights
   */
  SparseNN(ModelContext& context, const SparseNNConfig& config,
           const MakeEmbeddings& embeddings = LocalEmbeddings::make, DenseReduction reduction = {});

  void zero_gradients() override;
  std::unique_ptr<TableLookup> prefetch(const SparseFeatures& features, Stream& stream) override;
  void look_up_prefetched(TableLookup& lookup, Stream& stream) override;
  /** @throws std::invalid_argument if the features are not the model's */
  std::unique_ptr<TableLookup> look_up(const SparseFeatures& features, Stream& stream) override;
  /** @throws std::invalid_argument if shapes do not agree with the model or with each other
   *  @throws std::logic_error if forward was already called with this lookup */
  void forward(const InputTensors& input, TableLookup& lookup) override;
  /** @throws std::logic_error if the last forward was not this lookup's */
  void backward(TableLookup& lookup) override;
  /** @throws std::logic_error without a preceding backward, or if it was already called */
  void update_tables(TableLookup& lookup, Stream& stream) override;
  void optimizer_step() override;
  void swap_gradients(Buffer& other) override { parameters_.swap_gradients(other); }
  void abandon() noexcept override;
  [[nodiscard]] std::string dense_parameters_of_lookups() const override {
    return embeddings_->dense_parameters();
  }

  /** @brief Makes lookups keep the dense parameters that they read. `give_up` needs them. */
  void keep_values_of_lookups() noexcept { keeps_values_ = true; }
  /** @brief Takes the result out of a lookup; the lookup can then only be destroyed. */
  [[nodiscard]] AheadLookup give_up(TableLookup& lookup);
  /** @brief Makes the next lookup and the next forward, of the same batch, use this result. */
  void take_up(AheadLookup ahead) noexcept { ahead_ = std::move(ahead); }
  /** @brief Number of pooled columns per example. */
  [[nodiscard]] std::size_t pooled_columns() const noexcept { return columns_; }

  /**
   * @brief Returns the mean loss of the last forward; 0 without examples. Blocks until main is
   * idle.
   * @throws std::out_of_range if an id was out of range since the last check; the message has table
   *         and value
   */
  [[nodiscard]] float loss();
  /**
   * @brief Enqueues a copy of the last forward's mean loss on main. Does not check ids.
   * @param to  pinned memory
   */
  void copy_loss(float* to);
  /**
   * @brief Returns the logits of the last forward, one per example. Blocks until main is idle.
   * @throws like `loss`
   */
  [[nodiscard]] std::vector<float> logits();

  /**
   * @brief Returns the state for a checkpoint. Access it while main is idle, or by work ordered on
   * main.
   *
   * With cached tables the call writes all cached rows back to host memory and empties the caches.
   * Call it again after more steps.
   */
  [[nodiscard]] ModelState state();

  [[nodiscard]] EmbeddingBags& bags() noexcept { return embeddings_->bags(); }
  [[nodiscard]] EmbeddingBags& weighted_bags() noexcept { return embeddings_->weighted_bags(); }
  /**
   * @brief Returns the data-parallel tables, which are dense parameters; nullptr if there are none.
   */
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
  std::optional<Stream> reduce_on_;  ///< only with a `reduction_`
  Event gradients_there_;
  DenseParameters parameters_;
  const std::unique_ptr<PooledEmbeddings> embeddings_;
  Mlp dense_arch_;
  const std::size_t columns_;  ///< pooled columns of an example
  Mlp over_arch_;

  bool keeps_values_ = false;
  std::optional<AheadLookup> ahead_;  ///< result for the batch that is looked up next

  // State of the last forward.
  std::size_t batch_ = 0;
  bool kept_ = false;
  const TableLookup* forwarded_ = nullptr;
  Array<float> dense_, interacted_, logit_gradients_;
  Array<float> logits_, loss_;
};

}  // namespace millrace
