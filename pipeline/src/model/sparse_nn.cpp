#include "millrace/pipeline/model/sparse_nn.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>
#include <utility>

#include "millrace/pipeline/kernels/enqueue.hpp"
#include "model/cuda/kernels.hpp"
#include "model/host/dense.hpp"
#include "model/shapes.hpp"

namespace millrace {

using namespace model;

namespace {

void check_widths(const SparseNNConfig& config, std::size_t dense_width) {
  if (config.interaction != Interaction::dot) return;
  const auto refuse = [&](std::string_view what, std::size_t width) {
    throw std::invalid_argument(
        fmt::format("a dot interaction takes vectors of one width: {} is {} wide, the dense arch's "
                    "output {}",
                    what, width, dense_width));
  };
  if (config.dense_features == 0) {
    throw std::invalid_argument("a dot interaction needs dense features, but the model has none");
  }
  for (const auto* tables : {&config.tables, &config.weighted_tables}) {
    for (const TableConfig& table : *tables) {
      if (table.width != dense_width) refuse(fmt::format("table '{}'", table.name), table.width);
    }
  }
}

std::size_t interacted_columns(const SparseNNConfig& config, std::size_t dense_width,
                               const PooledEmbeddings& embeddings) {
  check_widths(config, dense_width);
  if (config.interaction == Interaction::concatenate) return dense_width + embeddings.columns();
  return DotShape{1, embeddings.features(), dense_width}.columns();
}

std::vector<std::size_t> with_logit(std::vector<std::size_t> widths) {
  widths.push_back(1);
  return widths;
}

std::vector<std::size_t> dense_widths(const SparseNNConfig& config) {
  if (config.dense_features == 0 && !config.dense_arch.empty()) {
    throw std::invalid_argument("the model has a dense arch but no dense features");
  }
  return config.dense_arch;
}

/**
 * Checks and advances the stage of a lookup. A lookup that went through forward, backward or update
 * twice would change the sums of a step; this finds pipelines that mix up their batches.
 */
PooledLookup& advance(TableLookup& of, PooledLookup::Stage to, const char* what) {
  auto& lookup = static_cast<PooledLookup&>(of);
  if (static_cast<int>(lookup.stage) + 1 != static_cast<int>(to)) {
    throw std::logic_error{what};
  }
  lookup.stage = to;
  return lookup;
}

}  // namespace

SparseNN::SparseNN(ModelContext& context, const SparseNNConfig& config,
                   const MakeEmbeddings& embeddings, DenseReduction reduction)
    : context_(context),
      dense_features_(config.dense_features),
      interaction_(config.interaction),
      reduction_(std::move(reduction)),
      parameters_(context, config.dense_optimizer, config.seed),
      embeddings_(embeddings(context, parameters_, config)),
      dense_arch_(context, parameters_, "dense", config.dense_features, dense_widths(config)),
      columns_(embeddings_->columns()),
      over_arch_(context, parameters_, "over",
                 interacted_columns(config, dense_arch_.outputs(), *embeddings_),
                 with_logit(config.over_arch), Mlp::Last::linear),
      loss_(context.allocator(), 1, context.main(), context.tags().parameters) {
  if (reduction_) {
    // A stream of its own, so that the reduction overlaps the update of tables.
    reduce_on_.emplace(context.allocator().device(),
                       StreamOptions{.blocking = false, .priority = 0, .name = "gradients"});
  }
  parameters_.create();
}

void SparseNN::zero_gradients() { parameters_.zero_gradients(context_.main()); }

std::unique_ptr<TableLookup> SparseNN::prefetch(const SparseFeatures& features, Stream& stream) {
  return embeddings_->prefetch(features, stream);
}

void SparseNN::look_up_prefetched(TableLookup& of, Stream& stream) {
  auto& lookup = static_cast<PooledLookup&>(of);
  if (lookup.stage != PooledLookup::Stage::prefetched) {
    throw std::logic_error{"a batch is looked up once"};
  }
  if (ahead_ && ahead_->values.size() > 0) {
    look_up_as_ahead(lookup, stream);
  } else {
    embeddings_->look_up(lookup, stream);
    const bool reads = keeps_values_ && !embeddings_->dense_parameters().empty();
    if (reads) lookup.values = parameters_.copy_values(stream);
  }
  lookup.stage = PooledLookup::Stage::looked_up;
}

// The lookup ahead read the data-parallel tables, which are dense parameters, with their values at
// that time. This lookup is for the same batch and must read the same values, although steps have
// changed them since.
void SparseNN::look_up_as_ahead(PooledLookup& lookup, Stream& stream) {
  const Array<float> present = parameters_.copy_values(stream);
  parameters_.set_values(ahead_->values, stream);
  embeddings_->look_up(lookup, stream);
  parameters_.set_values(present, stream);
  lookup.values = std::move(ahead_->values);
}

AheadLookup SparseNN::give_up(TableLookup& of) {
  auto& lookup = static_cast<PooledLookup&>(of);
  if (lookup.stage != PooledLookup::Stage::looked_up) {
    throw std::logic_error{"a lookup is given up between look_up and forward"};
  }
  embeddings_->receive(lookup, context_.main());
  return {std::move(lookup.pooled), std::move(lookup.values)};
}

std::unique_ptr<TableLookup> SparseNN::look_up(const SparseFeatures& features, Stream& stream) {
  std::unique_ptr<TableLookup> lookup = prefetch(features, stream);
  look_up_prefetched(*lookup, stream);
  return lookup;
}

void SparseNN::check(const InputTensors& input, const PooledLookup& lookup) const {
  const auto expect = [](std::string_view what, std::size_t found, std::size_t expected) {
    if (found == expected) return;
    throw std::invalid_argument(
        fmt::format("the batch has {} {}, and {} were expected", found, what, expected));
  };
  expect("dense features", input.dense_features, dense_features_);
  expect("labels", input.labels.as<float>().size(), input.batch_size);
  expect("dense values", input.dense.as<float>().size(), input.batch_size * dense_features_);
  if (embeddings_->features() > 0) expect("bags a key", lookup.batch_size, input.batch_size);
}

// Copies the data that backward reads, because the pipeline may free the batch right after forward.
void SparseNN::keep(const InputTensors& input) {
  const StreamRef main = context_.main();
  batch_ = input.batch_size;
  kept_ = true;
  dense_ = context_.activation<float>(batch_ * dense_features_, main);
  if (dense_.size() == 0) return;
  context_.device().copy(dense_.data(), input.dense.data(), dense_.size() * sizeof(float),
                         CopyKind::device_to_device, main.handle());
}

void SparseNN::forward(const InputTensors& input, TableLookup& of) {
  check(input, static_cast<PooledLookup&>(of));
  PooledLookup& lookup =
      advance(of, PooledLookup::Stage::forward, "a lookup goes through one forward");
  abandon();  // drops the activations of a forward without backward
  forwarded_ = &lookup;
  keep(input);
  Stream& main = context_.main();
  // The dense arch does not read pooled rows, so it runs while they are still exchanged.
  dense_arch_.forward(dense_.data(), batch_, main);
  embeddings_->receive(lookup, main);
  if (ahead_) lookup.pooled = std::move(std::exchange(ahead_, {})->pooled);
  interact(lookup.pooled);
  if (interaction_ == Interaction::concatenate) lookup.pooled = {};  // backward does not read it
  over_arch_.forward(interacted_.data(), batch_, main);
  lose(input.labels, lookup.share);
}

void SparseNN::interact(const Array<float>& pooled) {
  const StreamRef main = context_.main();
  const std::size_t width = dense_arch_.outputs();
  const auto dense = reads(dense_arch_.output(), batch_ * width);
  if (interaction_ == Interaction::concatenate) {
    const ConcatShape shape{batch_, width, columns_};
    interacted_ = context_.activation<float>(batch_ * (width + columns_), main);
    if (batch_ == 0) return;
    enqueue<host::concatenate<float>, cuda::concatenate>(
        context_, main,
        {.name = "concatenate", .bytes = 2 * kScalar * static_cast<double>(interacted_.size())},
        ConcatenateArguments<float>{.output = writes(interacted_),
                                    .dense = dense,
                                    .pooled = reads(pooled),
                                    .shape = shape});
    return;
  }
  const DotShape shape{batch_, embeddings_->features(), width};
  interacted_ = context_.activation<float>(batch_ * shape.columns(), main);
  if (batch_ == 0) return;
  enqueue<host::dot_interaction<float>, cuda::dot_interaction>(
      context_, main,
      {.name = "interact",
       .flops = 2 * static_cast<double>(batch_ * shape.pairs() * width),
       .bytes = kScalar * static_cast<double>(interacted_.size() + pooled.size())},
      DotInteractionArguments<float>{
          .output = writes(interacted_), .dense = dense, .pooled = reads(pooled), .shape = shape});
}

void SparseNN::lose(const BatchTensor& labels, float share) {
  const StreamRef main = context_.main();
  logit_gradients_ = context_.activation<float>(batch_, main);
  logits_ = over_arch_.take_output();
  if (batch_ == 0) {  // a rank whose share of the last batch is empty
    context_.device().fill(loss_.data(), 0, sizeof(float), main.handle());
    return;
  }
  const auto examples = static_cast<double>(batch_);
  enqueue<host::binary_cross_entropy<float>, cuda::binary_cross_entropy>(
      context_, main, {.name = "loss", .flops = 10 * examples, .bytes = 3 * kScalar * examples},
      BinaryCrossEntropyArguments<float>{
          .loss = writes(loss_),
          .gradient = writes(logit_gradients_),
          .logits = reads(logits_),
          .labels = reads(static_cast<const float*>(labels.data()), batch_)});
  // A rank's mean is weighted by its share of the examples, so the sum over ranks is the mean over
  // all.
  if (share == 1) return;
  enqueue<host::scale<float>, cuda::scale>(
      context_, main,
      {.name = "mean over ranks", .flops = examples, .bytes = 2 * kScalar * examples},
      updates(logit_gradients_), share);
}

// Returns the gradient of the dense arch's output. Stores that of the pooled rows in the lookup.
Array<float> SparseNN::interact_backward(const Array<float>& gradient, PooledLookup& lookup) {
  const StreamRef main = context_.main();
  const std::size_t width = dense_arch_.outputs();
  Array<float> dense_gradient = context_.activation<float>(batch_ * width, main);
  lookup.gradient = context_.activation<float>(batch_ * columns_, main);
  if (batch_ == 0) return dense_gradient;
  if (interaction_ == Interaction::concatenate) {
    enqueue<host::concatenate_backward<float>, cuda::concatenate_backward>(
        context_, main,
        {.name = "concatenate backward",
         .bytes = 2 * kScalar * static_cast<double>(gradient.size())},
        ConcatenateBackwardArguments<float>{.dense_gradient = writes(dense_gradient),
                                            .pooled_gradient = writes(lookup.gradient),
                                            .output_gradient = reads(gradient),
                                            .shape = {batch_, width, columns_}});
    return dense_gradient;
  }
  const DotShape shape{batch_, embeddings_->features(), width};
  enqueue<host::dot_interaction_backward<float>, cuda::dot_interaction_backward>(
      context_, main,
      {.name = "interact backward",
       .flops = 4 * static_cast<double>(batch_ * shape.pairs() * width),
       .bytes = kScalar * static_cast<double>(gradient.size() + 2 * lookup.pooled.size())},
      DotInteractionBackwardArguments<float>{.dense_gradient = writes(dense_gradient),
                                             .pooled_gradient = writes(lookup.gradient),
                                             .output_gradient = reads(gradient),
                                             .dense = reads(dense_arch_.output(), batch_ * width),
                                             .pooled = reads(lookup.pooled),
                                             .shape = shape});
  return dense_gradient;
}

void SparseNN::backward(TableLookup& of) {
  if (!kept_) throw std::logic_error("backward without a forward before it");
  if (forwarded_ != &of) throw std::logic_error("backward is of another lookup than forward");
  PooledLookup& lookup =
      advance(of, PooledLookup::Stage::backward, "a lookup goes through one backward");
  const StreamRef main = context_.main();
  // Each activation is freed after its last use, because memory peaks here.
  Array<float> gradient = over_arch_.backward(std::move(logit_gradients_), true, main);
  interacted_ = {};
  Array<float> dense_gradient = interact_backward(gradient, lookup);
  gradient = {};
  lookup.pooled = {};
  static_cast<void>(dense_arch_.backward(std::move(dense_gradient), false, main));
  abandon();
  // Recorded here, not in reduce_gradients, so that the reduction does not wait for the update of
  // tables, which main runs next.
  if (reduction_) context_.allocator().device().record(gradients_there_, main);
}

void SparseNN::update_tables(TableLookup& of, Stream& stream) {
  PooledLookup& lookup = advance(of, PooledLookup::Stage::updated,
                                 "tables are updated once by a lookup, after its backward");
  // The gradient is memory of main, which must not be reused while the update still reads it.
  if (stream.id() != context_.main().id()) lookup.gradient.buffer().record_use(stream);
  embeddings_->update(lookup, stream);
}

// Overlaps with the update of tables. The reduction waits for the exchange of pooled gradients, so
// that the link first serves that exchange, for which the update waits.
void SparseNN::reduce_gradients() {
  Stream& main = context_.main();
  if (embeddings_->dense_parameters().empty()) {
    reduce_on_->wait(gradients_there_);
  } else {  // the update of tables adds to these gradients, too
    reduce_on_->wait_stream(main);
  }
  reduce_on_->wait(embeddings_->sent());
  parameters_.record_gradient_use(*reduce_on_);
  reduction_(parameters_.gradients({}), parameters_.size(), *reduce_on_);
  main.wait_stream(*reduce_on_);
}

void SparseNN::optimizer_step() {
  if (reduction_) reduce_gradients();
  parameters_.step(context_.main());
}

void SparseNN::abandon() noexcept {
  kept_ = false;
  forwarded_ = nullptr;
  over_arch_.drop();
  dense_arch_.drop();
  for (Array<float>* array : {&dense_, &interacted_, &logit_gradients_}) *array = {};
}

// Called only where the host waits for main anyway, because a check in each step would make it
// wait.
void SparseNN::check_ids() {
  for (EmbeddingBags* bags : {&bags(), &weighted_bags()}) {
    if (bags->features().empty()) continue;
    const std::optional<InvalidId> bad = bags->invalid_id(context_.main());
    if (!bad) continue;
    throw std::out_of_range(
        fmt::format("id {} of feature '{}' is not in table '{}', which has {} "
                    "rows",
                    bad->value, bad->feature, bad->table, bad->rows));
  }
}

float SparseNN::loss() {
  check_ids();
  float loss = 0;
  copy_loss(&loss);
  context_.device().synchronize(context_.main().handle());
  return loss;
}

void SparseNN::copy_loss(float* to) {
  context_.device().copy(to, loss_.data(), sizeof(float), CopyKind::device_to_host,
                         context_.main().handle());
}

std::vector<float> SparseNN::logits() {
  check_ids();
  std::vector<float> logits(logits_.size());
  if (logits.empty()) return logits;
  const StreamHandle main = context_.main().handle();
  context_.device().copy(logits.data(), logits_.data(), logits.size() * sizeof(float),
                         CopyKind::device_to_host, main);
  context_.device().synchronize(main);
  return logits;
}

ModelState SparseNN::state() {
  ModelState state;
  bags().add_state(state, "table");
  weighted_bags().add_state(state, "weighted_table");
  parameters_.add_state(state);
  return state;
}

}  // namespace millrace
