#pragma once

#include <string>
#include <utility>
#include <vector>

#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/model/sparse_nn_config.hpp"
#include "millrace/pipeline/model/whole_state.hpp"
#include "millrace/pipeline/sharding/sharding_plan.hpp"
#include "sharding/layout.hpp"

namespace millrace::sharding {

/** @brief A tensor of the unsharded model, and the rank that has each part of it. */
struct PlacedTensor {
  struct Part {
    unsigned rank = 0;
    std::size_t first = 0, size = 0;
  };
  std::string name;
  std::size_t size = 0;
  std::vector<Part> parts;  ///< in order, without gaps
  StateTensor here;         ///< this rank's part, or its copy of the whole
};

/** @param of_rank  the state of this rank's model, in the order of its tables */
[[nodiscard]] std::vector<PlacedTensor> placed_tensors(const SparseNNConfig& config,
                                                       const ShardingPlan& plan,
                                                       const Layout& layout,
                                                       const ModelState& of_rank);

/** @brief Collects the parts of every tensor on rank 0, through the group. */
class ShardedState final : public WholeState {
 public:
  ShardedState(std::vector<PlacedTensor> placed, std::vector<StateCounter> counters,
               ModelContext& context, ProcessGroup& group)
      : placed_(std::move(placed)),
        counters_(std::move(counters)),
        context_(context),
        group_(group) {}

  [[nodiscard]] std::vector<Tensor> tensors() const override;
  [[nodiscard]] std::vector<Counter> counters() const override;
  void read(std::size_t tensor, const Use& use) override;

 private:
  void send(const StateTensor& here, unsigned from, std::size_t size, const Use& use);

  const std::vector<PlacedTensor> placed_;
  const std::vector<StateCounter> counters_;
  ModelContext& context_;
  ProcessGroup& group_;
};

}  // namespace millrace::sharding
