#include "sharding/sharded_bags.hpp"

#include <cmath>
#include <numeric>
#include <utility>

#include "millrace/pipeline/kernels/enqueue.hpp"
#include "model/batch_bags.hpp"
#include "sharding/host/kernels.hpp"

namespace millrace::sharding {

using namespace model;

namespace {

constexpr auto kScalar = static_cast<double>(sizeof(float));

/**
 * Returns options for bags that add gradients. Data-parallel tables are dense parameters, whose
 * gradients are summed over the ranks. The bags are bound to the gradients instead of the weights.
 * SGD with a rate of -1 (w -= -1 g) then adds the gradients of all ids there. Frozen tables add
 * nothing.
 */
EmbeddingOptions adding_up(const SparseNNConfig& config) {
  if (config.table_optimizer.kind == OptimizerKind::none) {
    return {.optimizer = config.table_optimizer, .bound = true};
  }
  return {.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = -1}, .bound = true};
}

Parameter add_parameters(DenseParameters& parameters, const std::vector<TableConfig>& tables) {
  std::optional<Parameter> first;
  for (const TableConfig& table : tables) {
    const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(table.rows)));
    const Parameter added = parameters.add_uniform(table.name, table.rows * table.width, bound);
    if (!first) first = added;
  }
  return first.value_or(Parameter{});
}

template <typename T>
Array<T> uploaded(ModelContext& context, const std::vector<T>& values) {
  Array<T> array{context.allocator(), values.size(), context.main(), context.tags().parameters};
  if (!values.empty()) {
    context.device().copy(array.data(), values.data(), values.size() * sizeof(T),
                          CopyKind::host_to_device, context.main().handle());
  }
  return array;
}

auto reads_all(const BatchTensor& numbers) {
  return reads(static_cast<const float*>(numbers.data()), numbers.bytes() / sizeof(float));
}

double bytes_of(const Array<float>& array) { return kScalar * static_cast<double>(array.size()); }

}  // namespace

// Takes `used_by_` from `other`: only one object may record the use when it is destroyed.
RowsUnderWay::RowsUnderWay(RowsUnderWay&& other) noexcept
    : of_all(std::move(other.of_all)),
      blocks(std::move(other.blocks)),
      used_by_(std::exchange(other.used_by_, std::nullopt)),
      there_(std::move(other.there_)) {}

void RowsUnderWay::wait(Stream& user) {
  user.wait(there_);
  used_by_.reset();
}

void RowsUnderWay::arrive(StreamRef owner, Stream& user) {
  wait(user);
  if (owner.id() != user.id()) record_use(user);
  of_all = {};
}

void RowsUnderWay::record_use(StreamRef stream) {
  of_all.buffer().record_use(stream);
  blocks.buffer().record_use(stream);
}

ShardedBags::ShardedBags(ModelContext& context, DenseParameters& parameters,
                         const SparseNNConfig& config, const Side& side, ProcessGroup& group)
    : context_(context),
      side_(side),
      group_(group),
      local_(context, side.local,
             {.optimizer = config.table_optimizer,
              .seed = config.seed,
              .observer = config.observer,
              .cache = config.table_cache}),
      everywhere_(context, side.everywhere,
                  {.optimizer = {.kind = OptimizerKind::none}, .seed = config.seed, .bound = true}),
      everywhere_gradients_(context, side.everywhere, adding_up(config)),
      first_everywhere_(add_parameters(parameters, side.everywhere)),
      first_source_(uploaded(context, side.first_source)),
      sources_(uploaded(context, side.sources)),
      mean_of_(uploaded(context, side.mean_of)) {}

void ShardedBags::process(DenseParameters& parameters, const PositionParameters& positions) {
  positions_.emplace(context_, parameters, positions, local_.features());
  own_positions_.emplace(context_, parameters, positions, everywhere_.features());
}

void ShardedBags::bind(DenseParameters& parameters) {
  everywhere_.bind(parameters.values(first_everywhere_));
  everywhere_gradients_.bind(parameters.gradients(first_everywhere_));
}

Array<float> ShardedBags::room_for_own_columns(const ShardedFeatures& features,
                                               Stream& stream) const {
  const std::size_t all =
      std::accumulate(features.examples.begin(), features.examples.end(), std::size_t{0});
  return context_.activation<float>(all * side_.columns[group_.rank()], stream);
}

Array<float> ShardedBags::room_for_blocks(const ShardedFeatures& features, Stream& stream) const {
  return context_.activation<float>(features.examples[group_.rank()] * side_.columns_before.back(),
                                    stream);
}

PooledMatrix ShardedBags::own_columns(const RowsUnderWay& rows) const {
  return {rows.of_all.data(), side_.columns[group_.rank()], 0};
}

PooledMatrix ShardedBags::last_block(const RowsUnderWay& rows, std::size_t batch) const {
  const std::size_t ranks = group_.size();
  return {rows.blocks.data() + batch * side_.columns_before[ranks], side_.columns[ranks], 0};
}

void ShardedBags::send(RowsUnderWay& rows, const ShardedFeatures& features, RowsTo to,
                       Stream& between_ranks) {
  if (!sends()) return;
  const std::size_t ranks = group_.size(), own = side_.columns[group_.rank()];
  const std::size_t batch = features.examples[group_.rank()];
  std::vector<SentBytes> sends;
  std::vector<ReceivedBytes> receives;
  std::size_t examples_before = 0;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    float* const theirs = rows.of_all.data() + examples_before * own;
    float* const block = rows.blocks.data() + batch * side_.columns_before[peer];
    const std::size_t theirs_bytes = features.examples[peer] * own * sizeof(float);
    const std::size_t block_bytes = batch * side_.columns[peer] * sizeof(float);
    const bool back = to == RowsTo::tables;
    sends.push_back(back ? SentBytes{block, block_bytes} : SentBytes{theirs, theirs_bytes});
    receives.push_back(back ? ReceivedBytes{theirs, theirs_bytes}
                            : ReceivedBytes{block, block_bytes});
    examples_before += features.examples[peer];
  }
  // Lent before the call: if it throws midway, the stream may still read and write these rows.
  rows.lend(between_ranks);
  group_.all_to_all(sends, receives, between_ranks);
  rows.mark(context_.allocator().device());
}

PositionFactors ShardedBags::factors(const ShardedFeatures& features, Stream& stream) {
  PositionFactors factors;
  const auto make = [&](std::optional<PositionWeights>& positions, const SplitBags& bags,
                        Array<float>& to) {
    if (!positions || positions->empty()) return;
    to = context_.activation<float>(bags.ids.value_count(), stream);
    positions->compute_factors(bags.ids, bags.positions, to.data(), stream);
  };
  make(positions_, {features.of_all, features.positions}, factors.of_all);
  make(own_positions_, {features.own, {}}, factors.own);
  return factors;
}

RowsUnderWay ShardedBags::look_up(const ShardedFeatures& features, const PositionFactors& factors,
                                  Stream& stream) {
  RowsUnderWay rows;
  rows.of_all = room_for_own_columns(features, stream);
  rows.blocks = room_for_blocks(features, stream);
  local_.look_up(features.of_all, factors.of_all.data(), own_columns(rows), stream);
  everywhere_.look_up(features.own, factors.own.data(),
                      last_block(rows, features.examples[group_.rank()]), stream);
  return rows;
}

ColumnMap ShardedBags::column_map(const ShardedFeatures& features) const {
  return {.first_source = reads(first_source_),
          .sources = reads(sources_),
          .mean_of = reads(mean_of_),
          .means = reads_all(features.means)};
}

void ShardedBags::join(const RowsUnderWay& rows, const ShardedFeatures& features,
                       const PooledMatrix& pooled, Stream& stream) {
  if (rows.blocks.size() == 0) return;
  const std::size_t batch = rows.blocks.size() / side_.columns_before.back();
  enqueue<host::join_columns, cuda::join_columns>(
      context_, stream,
      {.name = "join columns",
       .bytes = bytes_of(rows.blocks) + kScalar * static_cast<double>(batch * columns())},
      JoinColumnsArguments{.pooled = written_part(pooled, batch),
                           .blocks = reads(rows.blocks),
                           .columns = column_map(features),
                           .shape = {batch, columns(), pooled.stride, pooled.column}});
}

RowsUnderWay ShardedBags::part(const PooledMatrix& gradient, const ShardedFeatures& features,
                               Stream& stream) {
  const std::size_t batch = features.examples[group_.rank()];
  RowsUnderWay rows;
  rows.blocks = room_for_blocks(features, stream);
  if (rows.blocks.size() > 0) {
    enqueue<host::part_columns, cuda::part_columns>(
        context_, stream,
        {.name = "part columns",
         .bytes = bytes_of(rows.blocks) + kScalar * static_cast<double>(batch * columns())},
        PartColumnsArguments{
            .blocks = writes(rows.blocks),
            .pooled = reads(static_cast<const float*>(gradient.data), batch * gradient.stride),
            .columns = column_map(features),
            .shape = {batch, columns(), gradient.stride, gradient.column}});
  }
  return rows;
}

void ShardedBags::make_room(RowsUnderWay& rows, const ShardedFeatures& features, Stream& stream) {
  rows.of_all = room_for_own_columns(features, stream);
}

/** Call it before the rows are updated: the gradient of a factor depends on the row's old value. */
void ShardedBags::add_gradients(PositionWeights& positions, EmbeddingBags& bags,
                                const SplitBags& features, const PooledMatrix& gradient,
                                Stream& stream) {
  if (positions.empty()) return;
  const Array<float> of_factors = context_.activation<float>(features.ids.value_count(), stream);
  bags.factor_gradients(features.ids, gradient, of_factors.data(), stream);
  positions.add_gradients(features.ids, features.positions, of_factors.data(), stream);
}

void ShardedBags::update(RowsUnderWay rows, const ShardedFeatures& features,
                         const PositionFactors& factors, Stream& stream) {
  // Data-parallel tables come first: they need no exchange, and their update hides the wait for it.
  const PooledMatrix own = last_block(rows, features.examples[group_.rank()]);
  if (own_positions_) add_gradients(*own_positions_, everywhere_, {features.own, {}}, own, stream);
  everywhere_gradients_.update(features.own, factors.own.data(), own, stream);
  rows.wait(stream);
  const PooledMatrix of_all = own_columns(rows);
  if (positions_) {
    add_gradients(*positions_, local_, {features.of_all, features.positions}, of_all, stream);
  }
  local_.update(features.of_all, factors.of_all.data(), of_all, stream);
}

}  // namespace millrace::sharding
