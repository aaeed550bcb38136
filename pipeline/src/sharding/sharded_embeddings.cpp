#include "sharding/sharded_embeddings.hpp"

#include <numeric>
#include <utility>
#include <vector>

namespace millrace::sharding {

namespace {

std::vector<std::string> features_of(const std::vector<TableConfig>& tables) {
  std::vector<std::string> all;
  for (const TableConfig& table : tables) {
    all.insert(all.end(), table.features.begin(), table.features.end());
  }
  return all;
}

}  // namespace

struct ShardedEmbeddings::Lookup final : PooledLookup {
  using PooledLookup::PooledLookup;

  [[nodiscard]] std::array<ShardedFeatures, 2> of_sides() const {
    return {ShardedFeatures{features.unweighted, features.own_unweighted, features.own_means,
                            features.positions, features.examples},
            ShardedFeatures{features.weighted,
                            features.own_weighted,
                            features.own_weighted_means,
                            {},
                            features.examples}};
  }

  SparseFeatures features;
  std::array<PositionFactors, 2> factors;
  std::vector<HeldRows> held;      ///< one for each side
  std::vector<RowsUnderWay> rows;  ///< one for each side, until the rows are received
};

ShardedEmbeddings::ShardedEmbeddings(ModelContext& context, DenseParameters& parameters,
                                     const SparseNNConfig& config,
                                     std::shared_ptr<const Layout> layout, ProcessGroup& group)
    : context_(context),
      parameters_(parameters),
      layout_(std::move(layout)),
      between_ranks_(context.allocator().device(),
                     {.blocking = false, .priority = 0, .name = "pooled-rows"}),
      sides_{ShardedBags{context, parameters, config, layout_->sides[0], group},
             ShardedBags{context, parameters, config, layout_->sides[1], group}},
      positions_(PositionParameters::declare(parameters, features_of(config.tables),
                                             config.position_weights)) {
  if (positions_.all.size > 0) sides_[0].process(parameters, positions_);
}

std::string ShardedEmbeddings::dense_parameters() const {
  const auto& [unweighted, weighted] = layout_->sides;
  const bool none = unweighted.everywhere.empty() && weighted.everywhere.empty();
  if (positions_.all.size > 0) return "the position weights of its feature processors";
  return none ? "" : "its data-parallel tables";
}

// Called before every use, because swapping stashed gradients changes their address.
void ShardedEmbeddings::bind() {
  for (ShardedBags& side : sides_) side.bind(parameters_);
}

std::unique_ptr<PooledLookup> ShardedEmbeddings::prefetch(const SparseFeatures& features,
                                                          Stream& stream) {
  auto lookup = std::make_unique<Lookup>(stream);
  lookup->features = features;
  lookup->batch_size = features.examples.at(layout_->rank);
  const std::size_t all =
      std::accumulate(features.examples.begin(), features.examples.end(), std::size_t{0});
  if (all > 0) {
    lookup->share = static_cast<float>(lookup->batch_size) / static_cast<float>(all);
  }
  lookup->held.push_back(sides_[0].local().prefetch(lookup->features.unweighted, stream));
  lookup->held.push_back(sides_[1].local().prefetch(lookup->features.weighted, stream));
  return lookup;
}

void ShardedEmbeddings::look_up(PooledLookup& of, Stream& stream) {
  bind();
  auto& lookup = static_cast<Lookup&>(of);
  lookup.stream = stream;
  lookup.rows.clear();
  const auto of_sides = lookup.of_sides();
  // The sides send in the same order on every rank, because a group pairs its calls by their order.
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    lookup.factors[i] = sides_[i].factors(of_sides[i], stream);
    RowsUnderWay& rows =
        lookup.rows.emplace_back(sides_[i].look_up(of_sides[i], lookup.factors[i], stream));
    if (!sides_[i].sends()) continue;
    between_ranks_.wait_stream(stream);
    sides_[i].send(rows, of_sides[i], RowsTo::examples, between_ranks_);
  }
}

void ShardedEmbeddings::receive(PooledLookup& of, Stream& stream) {
  auto& lookup = static_cast<Lookup&>(of);
  for (RowsUnderWay& rows : lookup.rows) rows.arrive(lookup.stream, stream);
  const auto of_sides = lookup.of_sides();
  for (const ShardedFeatures& of_side : of_sides) of_side.means.record_use(stream);
  lookup.pooled = context_.activation<float>(lookup.batch_size * columns(), stream);
  std::size_t column = 0;
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    sides_[i].join(lookup.rows.at(i), of_sides[i], {lookup.pooled.data(), columns(), column},
                   stream);
    column += sides_[i].columns();
  }
  lookup.rows.clear();
}

void ShardedEmbeddings::update(PooledLookup& of, Stream& stream) {
  bind();
  auto& lookup = static_cast<Lookup&>(of);
  const auto of_sides = lookup.of_sides();
  std::vector<RowsUnderWay> rows;
  std::size_t column = 0;
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    rows.push_back(
        sides_[i].part({lookup.gradient.data(), columns(), column}, of_sides[i], stream));
    column += sides_[i].columns();
  }
  lookup.gradient = {};  // before memory for the gradients of other ranks is allocated
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    sides_[i].make_room(rows[i], of_sides[i], stream);
  }
  between_ranks_.wait_stream(stream);
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    sides_[i].send(rows[i], of_sides[i], RowsTo::tables, between_ranks_);
  }
  context_.allocator().device().record(sent_, between_ranks_);
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    sides_[i].update(std::move(rows[i]), of_sides[i], lookup.factors[i], stream);
    lookup.factors[i] = {};
  }
  lookup.held.clear();
  lookup.features = {};
}

}  // namespace millrace::sharding
