#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/model/pooled_embeddings.hpp"
#include "millrace/pipeline/model/sparse_nn.hpp"
#include "millrace/pipeline/model/whole_state.hpp"
#include "millrace/pipeline/sharding/sharding_plan.hpp"
#include "millrace/pipeline/sharding/sparse_exchange.hpp"

namespace millrace {

namespace sharding {
struct Layout;
}

/** @brief An additional tensor of a checkpoint. Every rank has a part of it. */
struct TensorOfRanks {
  StateTensor here;                ///< this rank's part
  std::vector<std::size_t> sizes;  ///< size of every rank's part, in floats, in order of ranks
};

/**
 * @brief The parts that a rank needs to train a SparseNN together with other ranks: its part of the
 * tables, the exchange of features, and the sum of gradients.
 *
 *   ShardedModel sharded{config, plan, group};
 *   SparseNN model{context, config, sharded.embeddings(), sharded.reduction()};
 *   const auto exchange = sharded.exchange(context);
 *
 * Every rank has the same model and plan, its own batches, and the same number of batches. The
 * gradient of a step is that of the mean loss over the examples of all ranks; ranks may have
 * different numbers of examples. With SGD the parameters after a step are those of one rank with
 * all examples, except for the order of sums. The dense parameters of all ranks are equal, bit for
 * bit, if the group always adds in the same order.
 *
 * In one step:
 *   features   The host exchanges sizes. Then each rank sends ids, lengths and weights to the ranks
 *              that hold the rows.
 *   lookup     Each rank pools its rows for the examples of all ranks. The pooled rows return in an
 *              all-to-all. For a table that is split by rows, the partial sums of the ranks are
 *              added in the order of ranks.
 *   update     The gradients of the pooled rows take the opposite way; then the fused update runs.
 *   optimizer  Before it, the dense gradients, including those of data-parallel tables, are summed
 *              over the ranks.
 */
class ShardedModel {
 public:
  /**
   * @param group  outlives this object and all that it makes
   * @throws std::invalid_argument like `ShardingPlan::check`, or if the plan and the group have
   * different numbers of ranks
   */
  ShardedModel(const SparseNNConfig& config, const ShardingPlan& plan, ProcessGroup& group);
  ~ShardedModel();

  /** @brief Makes this rank's part of the tables; an argument of SparseNN's constructor. */
  [[nodiscard]] MakeEmbeddings embeddings() const;
  /** @brief Sums dense gradients over the ranks; an argument of SparseNN's constructor. */
  [[nodiscard]] DenseReduction reduction() const;
  /**
   * @brief Makes the exchange of features, for one pipeline or for several that take turns.
   * @param context  its allocator allocates the features; outlives the exchange
   */
  [[nodiscard]] std::unique_ptr<SparseExchange> exchange(ModelContext& context) const;

  /**
   * @brief Returns the state of the whole model, for a checkpoint.
   *
   * The tensors and their names are those of a model on one rank, so that training can resume with
   * another number of ranks and another plan. A data-parallel table has the state of the dense
   * optimizer, named "table.NAME.dense.m", if the tables' optimizer is of another kind.
   * @param model    the model made with this object; outlives the state
   * @param context  the context of `model`; outlives the state
   * @param beside   additional tensors after those of the model; the same on every rank
   */
  [[nodiscard]] std::unique_ptr<WholeState> whole_state(
      SparseNN& model, ModelContext& context, const std::vector<TensorOfRanks>& beside = {}) const;
  /**
   * @brief Returns this rank's parts of that state, for a restore. Other ranks may have other
   * tensors.
   */
  [[nodiscard]] ModelState state(SparseNN& model) const;

 private:
  const SparseNNConfig config_;
  const ShardingPlan plan_;
  ProcessGroup& group_;
  const std::shared_ptr<const sharding::Layout> layout_;
};

}  // namespace millrace
