#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/pipeline/model/embedding_bags.hpp"
#include "millrace/pipeline/model/mlp.hpp"
#include "millrace/pipeline/model/position_weights.hpp"
#include "millrace/pipeline/model/train_model.hpp"

namespace millrace {

enum class Interaction {
  dot,          ///< dense vector, and the product of each pair of vectors: all are equally wide
  concatenate,  ///< dense and pooled vectors side by side
};

struct SparseNNConfig {
  std::size_t dense_features = 0;
  std::vector<TableConfig> tables;                      ///< of ids without weights
  std::vector<TableConfig> weighted_tables;             ///< of ids with weights
  std::map<std::string, std::size_t> position_weights;  ///< of features of `tables`, and how many
  std::vector<std::size_t> dense_arch;  ///< widths of the layers over the dense features
  std::vector<std::size_t> over_arch;   ///< widths of the hidden layers over the interaction
  Interaction interaction = Interaction::dot;
  Optimizer table_optimizer{.kind = OptimizerKind::rowwise_adagrad};
  Optimizer dense_optimizer{.kind = OptimizerKind::adam, .learning_rate = 1e-3F};
  std::uint64_t seed = 1;
  RowUpdateObserver* observer = nullptr;  ///< of the updates of all tables; not owned
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
  /** @throws std::invalid_argument if widths do not fit; as EmbeddingBags, PositionWeights */
  SparseNN(ModelContext& context, const SparseNNConfig& config);

  void zero_gradients() override;
  /** @throws std::invalid_argument if shapes disagree with the model's or with each other */
  void forward(const InputTensors& input, const SparseFeatures& features) override;
  /** @throws std::logic_error without a forward before */
  void backward() override;
  void optimizer_step() override;
  void abandon() noexcept override;

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

  /** @brief What a checkpoint keeps. To be read and written while main is idle, or ordered so. */
  [[nodiscard]] ModelState state();

  [[nodiscard]] EmbeddingBags& bags() noexcept { return bags_; }
  [[nodiscard]] EmbeddingBags& weighted_bags() noexcept { return weighted_bags_; }
  [[nodiscard]] DenseParameters& parameters() noexcept { return parameters_; }

 private:
  void check(const InputTensors& input, const SparseFeatures& features) const;
  void keep(const InputTensors& input, const SparseFeatures& features);
  void look_up();
  void interact();
  void lose(const BatchTensor& labels);
  [[nodiscard]] Array<float> interact_backward(const Array<float>& gradient,
                                               Array<float>& dense_gradient);
  void update_tables(const Array<float>& gradient);
  void check_ids();

  ModelContext& context_;
  const std::size_t dense_features_;
  const Interaction interaction_;
  DenseParameters parameters_;
  EmbeddingBags bags_, weighted_bags_;
  PositionWeights positions_;
  Mlp dense_arch_;
  const std::size_t columns_;  ///< pooled, of an example
  Mlp over_arch_;

  // Of the last forward.
  std::size_t batch_ = 0;
  SparseFeatures features_;
  bool kept_ = false;
  Array<float> dense_, factors_, pooled_, interacted_, dlogits_;
  Array<float> logits_, loss_;
};

}  // namespace millrace
