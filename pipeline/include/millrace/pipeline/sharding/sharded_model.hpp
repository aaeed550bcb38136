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

/** @brief A tensor that a checkpoint keeps beside the model's, in parts. */
struct TensorOfRanks {
  StateTensor here;                ///< this rank's part
  std::vector<std::size_t> sizes;  ///< of every rank's part, in floats, in the ranks' order
};

/**
 * @brief What a rank needs to train a SparseNN together with others: its share of the tables, the
 *        exchange of features, and the sum of gradients.
 *
 *   ShardedModel sharded{config, plan, group};
 *   SparseNN model{context, config, sharded.embeddings(), sharded.reduction()};
 *   const auto exchange = sharded.exchange(context);
 *
 * Every rank has the same model and plan, a batch of its own, and the same number of batches. The
 * gradient of a step is that of the mean loss over the examples of all ranks, however many each of
 * them has. With SGD the parameters after a step are those of one rank
 * with all examples, but for the order of sums; ranks hold the same dense parameters, bit for bit,
 * where the group adds up in one order.
 *
 * On the way there
 *   features   each rank's ids go to the ranks that have the tables' rows, lengths and weights with
 *              them; the sizes before, on the host
 *   lookup     a rank pools what it has for the examples of all; rows go back in an all-to-all, and
 *              are put together: parts of a table split by rows are added up, in the order of ranks
 *   update     gradients go the other way, and the fused update follows
 *   optimizer  dense gradients, those of data-parallel tables among them, are added up before
 */
class ShardedModel {
 public:
  /**
   * @param group  outlives what is made here
   * @throws std::invalid_argument as `ShardingPlan::check`, or if the plan is not for so many ranks
   */
  ShardedModel(const SparseNNConfig& config, const ShardingPlan& plan, ProcessGroup& group);
  ~ShardedModel();

  /** @brief For the constructor of SparseNN. */
  [[nodiscard]] MakeEmbeddings embeddings() const;
  [[nodiscard]] DenseReduction reduction() const;
  /**
   * @brief Of one pipeline, or of several that take turns.
   * @param context  its allocator has the features' memory; outlives the exchange
   */
  [[nodiscard]] std::unique_ptr<SparseExchange> exchange(ModelContext& context) const;

  /**
   * @brief What a checkpoint keeps: tensors and their names are those of a model on one rank, so
   *        that another number of ranks with another plan may go on. Data-parallel tables have the
   *        state of the dense optimizer, "table.NAME.dense.m", where the tables' is of another
   * kind.
   * @param model   of this, and `context` its own; both outlive the state
   * @param beside  follow the model's tensors; the same on every rank
   */
  [[nodiscard]] std::unique_ptr<WholeState> whole_state(
      SparseNN& model, ModelContext& context, const std::vector<TensorOfRanks>& beside = {}) const;
  /** @brief This rank's parts of the same, to be restored; of some tensors it has none. */
  [[nodiscard]] ModelState state(SparseNN& model) const;

 private:
  const SparseNNConfig config_;
  const ShardingPlan plan_;
  ProcessGroup& group_;
  const std::shared_ptr<const sharding::Layout> layout_;
};

}  // namespace millrace
