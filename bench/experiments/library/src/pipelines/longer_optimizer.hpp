#pragma once

#include "millrace/pipeline/model/forwarding_model.hpp"
#include "millrace/pipeline/model/sparse_nn.hpp"

namespace millrace::experiment {

/**
 * @brief A model whose dense optimizer takes longer, for comparisons of costs.
 *
 * Each step counts its reads and writes `times` times. The computed values do not change.
 */
class LongerOptimizer final : public ForwardingModel {
 public:
  /** @param times  at least 1 */
  LongerOptimizer(SparseNN& model, Allocator& memory, Stream& main, double times)
      : ForwardingModel(model), model_(model), memory_(memory), main_(main), times_(times) {}

  void optimizer_step() override;

 private:
  SparseNN& model_;
  Allocator& memory_;
  Stream& main_;
  const double times_;
};

}  // namespace millrace::experiment
