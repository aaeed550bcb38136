#include "sharding/sharded_embeddings.hpp"

#include <cmath>
#include <numeric>
#include <utility>

#include "model/enqueue.hpp"
#include "sharding/host/kernels.hpp"

namespace millrace::sharding {

using namespace model;

namespace {

constexpr auto kScalar = static_cast<double>(sizeof(float));

EmbeddingOptions options_of(const SparseNNConfig& config) {
  return {config.table_optimizer, config.seed, config.observer};
}

/** w -= -1 g: what is bound to the gradients adds up there what an update would take. Of frozen
 * tables nothing. */
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

}  // namespace

struct ShardedEmbeddings::Lookup final : PooledLookup {
  using PooledLookup::PooledLookup;

  SparseFeatures features;
};

ShardedEmbeddings::Everywhere::Everywhere(ModelContext& context, DenseParameters& parameters,
                                          const Side& side, const SparseNNConfig& config)
    : weights(context, side.everywhere,
              {.optimizer = {.kind = OptimizerKind::none}, .seed = config.seed, .bound = true}),
      gradients(context, side.everywhere, adding_up(config)),
      first(add_parameters(parameters, side.everywhere)) {}

void ShardedEmbeddings::Everywhere::bind(DenseParameters& parameters) {
  weights.bind(parameters.values(first));
  gradients.bind(parameters.gradients(first));
}

ShardedEmbeddings::ShardedEmbeddings(ModelContext& context, DenseParameters& parameters,
                                     const SparseNNConfig& config,
                                     std::shared_ptr<const Layout> layout, ProcessGroup& group)
    : context_(context),
      parameters_(parameters),
      layout_(std::move(layout)),
      group_(group),
      local_{EmbeddingBags{context, layout_->sides[0].local, options_of(config)},
             EmbeddingBags{context, layout_->sides[1].local, options_of(config)}},
      everywhere_{Everywhere{context, parameters, layout_->sides[0], config},
                  Everywhere{context, parameters, layout_->sides[1], config}},
      first_source_(uploaded(context, layout_->first_source)),
      sources_(uploaded(context, layout_->sources)) {}

std::string ShardedEmbeddings::dense_parameters() const {
  const bool none = layout_->columns[layout_->ranks] == 0;
  return none ? "" : "its data-parallel tables";
}

// Dense parameters are there when all have been declared.
void ShardedEmbeddings::bind() {
  if (std::exchange(bound_, true)) return;
  for (Everywhere& tables : everywhere_) tables.bind(parameters_);
}

/** Rows of all examples here, and blocks of this rank's examples: one way, or back. */
void ShardedEmbeddings::exchange(const Lookup& lookup, float* of_all, float* blocks, bool back,
                                 Stream& stream) {
  const std::vector<std::size_t>& examples = lookup.features.examples;
  const std::size_t own = layout_->columns[layout_->rank];
  std::vector<SentBytes> sends;
  std::vector<ReceivedBytes> receives;
  std::size_t before = 0;
  for (unsigned peer = 0; peer < layout_->ranks; ++peer) {
    float* const theirs = of_all + before * own;
    float* const block = blocks + first_element(peer, lookup.batch_size);
    const std::size_t theirs_bytes = examples[peer] * own * sizeof(float);
    const std::size_t block_bytes = lookup.batch_size * layout_->columns[peer] * sizeof(float);
    sends.push_back(back ? SentBytes{block, block_bytes} : SentBytes{theirs, theirs_bytes});
    receives.push_back(back ? ReceivedBytes{theirs, theirs_bytes}
                            : ReceivedBytes{block, block_bytes});
    before += examples[peer];
  }
  group_.all_to_all(sends, receives, stream);
}

std::unique_ptr<PooledLookup> ShardedEmbeddings::look_up(const SparseFeatures& features,
                                                         Stream& stream) {
  bind();
  auto lookup = std::make_unique<Lookup>(stream);
  lookup->features = features;
  const std::vector<std::size_t>& examples = features.examples;
  lookup->batch_size = examples.at(layout_->rank);
  const std::size_t all = std::accumulate(examples.begin(), examples.end(), std::size_t{0});
  const std::size_t batch = lookup->batch_size, own = layout_->columns[layout_->rank];
  if (all > 0) lookup->share = static_cast<float>(batch) / static_cast<float>(all);
  const KeyedJaggedTensor* const sides[] = {&features.unweighted, &features.weighted};
  const KeyedJaggedTensor* const own_sides[] = {&features.own_unweighted, &features.own_weighted};

  Array<float> of_all = context_.activation<float>(all * own, stream);
  const Array<float> blocks = context_.activation<float>(batch * layout_->block_columns, stream);
  const std::size_t last = layout_->columns[layout_->ranks];
  float* const everywhere = blocks.data() + first_element(layout_->ranks, batch);
  std::size_t column = 0, own_column = 0;
  for (std::size_t side = 0; side < 2; ++side) {
    local_[side].forward(*sides[side], nullptr, {of_all.data(), own, column}, stream);
    column += local_[side].columns();
    everywhere_[side].weights.forward(*own_sides[side], nullptr, {everywhere, last, own_column},
                                      stream);
    own_column += everywhere_[side].weights.columns();
  }
  exchange(*lookup, of_all.data(), blocks.data(), false, stream);
  of_all = {};

  lookup->pooled = context_.activation<float>(batch * columns(), stream);
  if (lookup->pooled.size() > 0) {
    enqueue<host::join_columns, cuda::join_columns>(
        context_, stream,
        {.name = "join columns",
         .bytes = kScalar * static_cast<double>(blocks.size() + lookup->pooled.size())},
        writes(lookup->pooled), reads(blocks), reads(first_source_), reads(sources_),
        BlockShape{batch, columns(), layout_->block_columns});
  }
  return lookup;
}

void ShardedEmbeddings::update(PooledLookup& of, Stream& stream) {
  auto& lookup = static_cast<Lookup&>(of);
  const std::vector<std::size_t>& examples = lookup.features.examples;
  const std::size_t all = std::accumulate(examples.begin(), examples.end(), std::size_t{0});
  const std::size_t batch = lookup.batch_size, own = layout_->columns[layout_->rank];
  const KeyedJaggedTensor* const sides[] = {&lookup.features.unweighted, &lookup.features.weighted};
  const KeyedJaggedTensor* const own_sides[] = {&lookup.features.own_unweighted,
                                                &lookup.features.own_weighted};

  const Array<float> blocks = context_.activation<float>(batch * layout_->block_columns, stream);
  if (lookup.gradient.size() > 0) {
    enqueue<host::part_columns, cuda::part_columns>(
        context_, stream,
        {.name = "part columns",
         .bytes = kScalar * static_cast<double>(blocks.size() + lookup.gradient.size())},
        writes(blocks), reads(lookup.gradient), reads(first_source_), reads(sources_),
        BlockShape{batch, columns(), layout_->block_columns});
  }
  lookup.gradient = {};
  const Array<float> of_all = context_.activation<float>(all * own, stream);
  exchange(lookup, of_all.data(), blocks.data(), true, stream);

  const std::size_t last = layout_->columns[layout_->ranks];
  float* const everywhere = blocks.data() + first_element(layout_->ranks, batch);
  std::size_t column = 0, own_column = 0;
  for (std::size_t side = 0; side < 2; ++side) {
    local_[side].backward(*sides[side], nullptr, {of_all.data(), own, column}, stream);
    column += local_[side].columns();
    everywhere_[side].gradients.backward(*own_sides[side], nullptr, {everywhere, last, own_column},
                                         stream);
    own_column += everywhere_[side].weights.columns();
  }
  lookup.features = {};
}

}  // namespace millrace::sharding
