#include <fmt/format.h>

#include <stdexcept>

#include "millrace/pipeline/model/pooled_embeddings.hpp"

namespace millrace {
namespace {

EmbeddingOptions embedding_options(const SparseNNConfig& config) {
  return {.optimizer = config.table_optimizer,
          .seed = config.seed,
          .observer = config.observer,
          .cache = config.table_cache};
}

}  // namespace

struct LocalEmbeddings::Lookup final : PooledLookup {
  using PooledLookup::PooledLookup;

  SparseFeatures features;
  HeldRows held, weighted_held;
  Array<float> factors;  ///< factors of ids without own weights, if positions have weights
};

LocalEmbeddings::LocalEmbeddings(ModelContext& context, DenseParameters& parameters,
                                 const SparseNNConfig& config)
    : context_(context),
      bags_(context, config.tables, embedding_options(config)),
      weighted_bags_(context, config.weighted_tables, embedding_options(config)),
      positions_(context, parameters,
                 PositionParameters::declare(parameters, bags_.features(), config.position_weights),
                 bags_.features()) {}

std::unique_ptr<PooledEmbeddings> LocalEmbeddings::make(ModelContext& context,
                                                        DenseParameters& parameters,
                                                        const SparseNNConfig& config) {
  return std::make_unique<LocalEmbeddings>(context, parameters, config);
}

std::string LocalEmbeddings::dense_parameters() const {
  return positions_.empty() ? "" : "the position weights of its feature processors";
}

std::size_t LocalEmbeddings::batch_size(const SparseFeatures& features) const {
  const std::size_t one = features.unweighted.batch_size();
  const std::size_t other = features.weighted.batch_size();
  if (bags_.features().empty()) return other;
  if (!weighted_bags_.features().empty() && one != other) {
    throw std::invalid_argument(fmt::format(
        "the batch has {} bags a key of ids without weights, and {} of those with", one, other));
  }
  return one;
}

std::unique_ptr<PooledLookup> LocalEmbeddings::prefetch(const SparseFeatures& features,
                                                        Stream& stream) {
  auto lookup = std::make_unique<Lookup>(stream);
  lookup->features = features;
  lookup->batch_size = batch_size(features);
  lookup->held = bags_.prefetch(features.unweighted, stream);
  lookup->weighted_held = weighted_bags_.prefetch(features.weighted, stream);
  return lookup;
}

void LocalEmbeddings::look_up(PooledLookup& of, Stream& stream) {
  auto& lookup = static_cast<Lookup&>(of);
  const SparseFeatures& features = lookup.features;
  lookup.stream = stream;
  lookup.pooled = context_.activation<float>(lookup.batch_size * columns(), stream);
  if (!positions_.empty()) {
    lookup.factors = context_.activation<float>(features.unweighted.value_count(), stream);
    positions_.compute_factors(features.unweighted, features.positions, lookup.factors.data(),
                               stream);
  }
  float* const pooled = lookup.pooled.data();
  bags_.look_up(features.unweighted, lookup.factors.data(), {pooled, columns(), 0}, stream);
  weighted_bags_.look_up(features.weighted, nullptr, {pooled, columns(), bags_.columns()}, stream);
}

// Nothing is exchanged, so the rows are already here. They may be memory of the stream of lookups,
// which must not reuse it while `stream` reads.
void LocalEmbeddings::receive(PooledLookup& lookup, Stream& stream) {
  if (lookup.stream.id() != stream.id()) lookup.pooled.buffer().record_use(stream);
}

void LocalEmbeddings::update(PooledLookup& of, Stream& stream) {
  auto& lookup = static_cast<Lookup&>(of);
  const KeyedJaggedTensor& unweighted = lookup.features.unweighted;
  const KeyedJaggedTensor& weighted = lookup.features.weighted;
  float* const gradient = lookup.gradient.data();
  // Computed before the update: the gradient of a position weight depends on the old values of the
  // rows.
  if (!positions_.empty()) {
    const Array<float> factor_gradients =
        context_.activation<float>(unweighted.value_count(), stream);
    bags_.factor_gradients(unweighted, {gradient, columns(), 0}, factor_gradients.data(), stream);
    positions_.add_gradients(unweighted, lookup.features.positions, factor_gradients.data(),
                             stream);
  }
  bags_.update(unweighted, lookup.factors.data(), {gradient, columns(), 0}, stream);
  weighted_bags_.update(weighted, nullptr, {gradient, columns(), bags_.columns()}, stream);
  lookup.held.release();
  lookup.weighted_held.release();
  lookup.gradient = {};
  lookup.factors = {};
  lookup.features = {};
}

}  // namespace millrace
