#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"
#include "millrace/pipeline/model/dense_parameters.hpp"

namespace millrace {

/**
 * @brief A feature processor: each id is weighted by its position in its bag.
 *
 * The weights start at 1 and are dense parameters. Positions from the feature's length on have the
 * weight of the last one; ids of features that are not named have weight 1.
 */
class PositionWeights {
 public:
  /**
   * @param lengths  how many weights the features named have
   * @throws std::invalid_argument for a length of 0, or a feature that is not one of `features`
   */
  PositionWeights(ModelContext& context, DenseParameters& parameters,
                  const std::vector<std::string>& features,
                  const std::map<std::string, std::size_t>& lengths);

  [[nodiscard]] bool empty() const noexcept { return weights_.size == 0; }

  /** @brief Enqueues; `factors` [N], of each id of the batch. */
  void forward(const KeyedJaggedTensor& batch, float* factors, StreamRef stream);
  /** @brief Enqueues; adds to the gradients of the weights. */
  void backward(const KeyedJaggedTensor& batch, const float* dfactors, StreamRef stream);

 private:
  ModelContext& context_;
  DenseParameters& parameters_;
  std::size_t features_;
  Parameter weights_;
  Buffer starts_;  ///< int64 [F + 1]
};

}  // namespace millrace
