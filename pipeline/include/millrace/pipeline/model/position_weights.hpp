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

/** @brief Which dense parameters the weights of positions are: of all features of a model. */
struct PositionParameters {
  Parameter all;                                ///< none, where no feature has any
  std::map<std::string, Parameter> of_feature;  ///< offsets within `all`

  /**
   * @param lengths  how many weights the features named have
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
  /** @param features  those of the batches that it is for, in their order: all of the model's, or
   *                   some */
  PositionWeights(ModelContext& context, DenseParameters& parameters,
                  const PositionParameters& declared, const std::vector<std::string>& features);

  /** @brief None of the features has weights: there is nothing to do. */
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

  /**
   * @brief Enqueues the lookup of each id's weight.
   * @param positions  float [N]: the position of each id in its whole bag, if the batch has parts
   * of bags; none: its position in the bag that is there
   * @param factors    [N]: written, for each id of the batch
   */
  void compute_factors(const KeyedJaggedTensor& batch, const BatchTensor& positions, float* factors,
                       StreamRef stream);
  /**
   * @brief Enqueues the sum of the gradients of the factors, added to those of the weights.
   * @param positions         as of `compute_factors`
   * @param factor_gradients  [N]: read
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
  const Parameter weights_;  ///< of all features of the model
  std::size_t count_ = 0;    ///< of weights of these features
  Buffer starts_;            ///< int64 [F + 1]: of the weights of these features
  Buffer places_;            ///< int64 [F]: where they are in `weights_`
};

}  // namespace millrace
