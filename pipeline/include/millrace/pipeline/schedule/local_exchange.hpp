#pragma once

#include <string>
#include <vector>

#include "millrace/memory/allocator.hpp"
#include "millrace/pipeline/sharding/sparse_exchange.hpp"

namespace millrace {

/**
 * @brief The exchange for a single rank, which has all tables: nothing is sent.
 *
 * Features are copied into the order in which the model looks them up. `start` enqueues the copy;
 * `receive` never blocks. Features that the model does not use are left out. The memory of the copy
 * has the tag "features".
 */
class LocalExchange final : public SparseExchange {
 public:
  /**
   * @param memory     allocates the arranged features, and outlives them
   * @param features   names of the features that the model looks up, in the model's order
   * @param weighted   the same for features with weights
   * @param cost_only  run no host kernels; see JaggedScope
   */
  LocalExchange(Allocator& memory, std::vector<std::string> features,
                std::vector<std::string> weighted = {}, bool cost_only = false);

  /** @throws std::invalid_argument if a feature is missing in the batch; otherwise as
   *          SparseExchange */
  [[nodiscard]] std::unique_ptr<FeatureExchange> start(const InputTensors& input,
                                                       Stream& stream) override;

 private:
  [[nodiscard]] KeyedJaggedTensor gather(const KeyedJaggedTensor& input,
                                         const std::vector<std::string>& features,
                                         Stream& stream) const;

  Allocator& memory_;
  const std::vector<std::string> features_, weighted_;
  const bool cost_only_;
  const Tag tag_;
};

}  // namespace millrace
