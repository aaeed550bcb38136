#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"
#include "millrace/pipeline/model/dense_parameters.hpp"

namespace millrace {

namespace model {
template <typename Offset>
struct BagPositions;
}  // namespace model

/** @brief The places of a model's position weights among its dense parameters. */
struct PositionParameters {
  Parameter all;                                ///< empty if no feature has weights
  std::map<std::string, Parameter> of_feature;  ///< offsets within `all`

  /**
   * @param lengths  number of position weights, for each feature that has any
   * @throws std::invalid_argument for a length of 0, or a feature that is not one of `features`
   */
  [[nodiscard]] static PositionParameters declare(
      DenseParameters& parameters, const std::vector<std::string>& features,
      const std::map<std::string, std::size_t>& lengths);
};

/**
 * @brief A feature processor: each id is weighted by its position in its bag.
 *
 * The weights are dense parameters, initially 1. All positions beyond a feature's last weight share
 * that weight. Ids of features that are not named have weight 1.
 */
class PositionWeights {
 public:
  /**
   * @param features  the features of the batches, in their order: all or some of the model's
   *     features
   */
  PositionWeights(ModelContext& context, DenseParameters& parameters,
                  const PositionParameters& declared, const std::vector<std::string>& features);

  /** @brief Returns whether none of the features has position weights. */
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

  /**
   * @brief Enqueues the lookup of each id's weight.
   * @param positions  float [N]: each id's position in its whole bag, for a batch that has parts of
   *                   bags; empty: positions are counted in the batch's bags
   * @param factors    [N], written
   */
  void compute_factors(const KeyedJaggedTensor& batch, const BatchTensor& positions, float* factors,
                       StreamRef stream);
  /**
   * @brief Enqueues the addition of the factors' gradients to the gradients of the weights.
   * @param positions         see `compute_factors`
   * @param factor_gradients  [N]
   */
  void add_gradients(const KeyedJaggedTensor& batch, const BatchTensor& positions,
                     const float* factor_gradients, StreamRef stream);

 private:
  template <typename Offset>
  [[nodiscard]] model::BagPositions<Offset> bags_of(const KeyedJaggedTensor& batch,
                                                    const BatchTensor& positions) const;

  ModelContext& context_;
  DenseParameters& parameters_;
  const std::size_t features_;
  const Parameter weights_;  ///< position weights of all features of the model
  std::size_t count_ = 0;    ///< number of weights of the features of the batches
  Buffer starts_;            ///< int64 [F + 1]: number of weights of all earlier features
  Buffer places_;            ///< int64 [F]: index of each feature's first weight in `weights_`
};

}  // namespace millrace
