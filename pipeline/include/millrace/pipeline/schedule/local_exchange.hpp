#pragma once

#include <string>
#include <vector>

#include "millrace/memory/allocator.hpp"
#include "millrace/pipeline/sharding/sparse_exchange.hpp"

namespace millrace {

/**
 * @brief The exchange of one rank, which has all tables: features are copied into the order in
 *        which the model looks them up, and nothing is sent.
 *
 * `start` enqueues the copy; `receive` has nothing to learn and never blocks. Features that the
 * model does not look up are left out. The copy is tagged "features".
 */
class LocalExchange final : public SparseExchange {
 public:
  /**
   * @param memory    outlives the features that come of it
   * @param features  that the model looks up, in its order
   * @param weighted  those with weights
   * @param cost_only  no kernels: see JaggedScope
   */
  LocalExchange(Allocator& memory, std::vector<std::string> features,
                std::vector<std::string> weighted = {}, bool cost_only = false);

  /** @throws std::invalid_argument if a feature is not in the batch; as SparseExchange */
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
