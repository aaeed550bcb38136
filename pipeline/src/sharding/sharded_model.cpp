#include "millrace/pipeline/sharding/sharded_model.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "sharding/layout.hpp"
#include "sharding/sharded_embeddings.hpp"
#include "sharding/sharded_exchange.hpp"
#include "sharding/sharded_state.hpp"

namespace millrace {
namespace {

std::shared_ptr<const sharding::Layout> lay_out(const SparseNNConfig& config,
                                                const ShardingPlan& plan,
                                                const ProcessGroup& group) {
  if (plan.ranks != group.size()) {
    throw std::invalid_argument{
        fmt::format("the plan is for {} ranks, the group has {}", plan.ranks, group.size())};
  }
  return std::make_shared<const sharding::Layout>(config, plan, group.rank());
}

}  // namespace

ShardedModel::ShardedModel(const SparseNNConfig& config, const ShardingPlan& plan,
                           ProcessGroup& group)
    : config_(config), plan_(plan), group_(group), layout_(lay_out(config, plan, group)) {}

ShardedModel::~ShardedModel() = default;

MakeEmbeddings ShardedModel::embeddings() const {
  return [layout = layout_, &group = group_](ModelContext& context, DenseParameters& parameters,
                                             const SparseNNConfig& config) {
    return std::make_unique<sharding::ShardedEmbeddings>(context, parameters, config, layout,
                                                         group);
  };
}

DenseReduction ShardedModel::reduction() const {
  return [&group = group_](float* gradients, std::size_t size, StreamRef stream) {
    group.all_reduce_sum(gradients, size, stream);
  };
}

std::unique_ptr<SparseExchange> ShardedModel::exchange(ModelContext& context) const {
  return std::make_unique<sharding::ShardedExchange>(context, layout_, group_);
}

std::unique_ptr<WholeState> ShardedModel::whole_state(
    SparseNN& model, ModelContext& context, const std::vector<TensorOfRanks>& beside) const {
  const ModelState of_rank = model.state();
  auto placed = sharding::placed_tensors(config_, plan_, *layout_, of_rank);
  for (const TensorOfRanks& tensor : beside) {
    auto& added = placed.emplace_back();
    added.name = tensor.here.name;
    added.here = tensor.here;
    for (unsigned rank = 0; rank < tensor.sizes.size(); ++rank) {
      added.parts.push_back({rank, added.size, tensor.sizes[rank]});
      added.size += tensor.sizes[rank];
    }
  }
  return std::make_unique<sharding::ShardedState>(std::move(placed), of_rank.counters, context,
                                                  group_);
}

ModelState ShardedModel::state(SparseNN& model) const {
  const ModelState of_rank = model.state();
  ModelState parts{.tensors = {}, .counters = of_rank.counters};
  for (const auto& tensor : sharding::placed_tensors(config_, plan_, *layout_, of_rank)) {
    parts.tensors.push_back(tensor.here);
  }
  return parts;
}

}  // namespace millrace
