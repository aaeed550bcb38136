#include "millrace/pipeline/model/sparse_nn.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>
#include <utility>

#include "model/cuda/kernels.hpp"
#include "model/enqueue.hpp"
#include "model/host/dense.hpp"

namespace millrace {

using namespace model;

namespace {

constexpr auto kScalar = static_cast<double>(sizeof(float));

void check_widths(const SparseNNConfig& config, std::size_t dense_width) {
  if (config.interaction != Interaction::dot) return;
  const auto refuse = [&](std::string_view what, std::size_t width) {
    throw std::invalid_argument(
        fmt::format("a dot interaction takes vectors of one width: {} is {} wide, the dense arch's "
                    "output {}",
                    what, width, dense_width));
  };
  if (config.dense_features == 0) {
    throw std::invalid_argument("a dot interaction takes dense features, and the model has none");
  }
  for (const auto* tables : {&config.tables, &config.weighted_tables}) {
    for (const TableConfig& table : *tables) {
      if (table.width != dense_width) refuse(fmt::format("table '{}'", table.name), table.width);
    }
  }
}

std::size_t features_of(const EmbeddingBags& one, const EmbeddingBags& other) {
  return one.features().size() + other.features().size();
}

std::size_t interacted_columns(const SparseNNConfig& config, std::size_t dense_width,
                               const EmbeddingBags& one, const EmbeddingBags& other) {
  check_widths(config, dense_width);
  if (config.interaction == Interaction::concatenate) {
    return dense_width + one.columns() + other.columns();
  }
  return DotShape{1, features_of(one, other), dense_width}.columns();
}

std::vector<std::size_t> with_logit(std::vector<std::size_t> widths) {
  widths.push_back(1);
  return widths;
}

std::vector<std::size_t> dense_widths(const SparseNNConfig& config) {
  if (config.dense_features == 0 && !config.dense_arch.empty()) {
    throw std::invalid_argument("there is a dense arch, and no dense features");
  }
  return config.dense_arch;
}

EmbeddingOptions embedding_options(const SparseNNConfig& config) {
  return {config.table_optimizer, config.seed, config.observer};
}

}  // namespace

SparseNN::SparseNN(ModelContext& context, const SparseNNConfig& config)
    : context_(context),
      dense_features_(config.dense_features),
      interaction_(config.interaction),
      parameters_(context, config.dense_optimizer, config.seed),
      bags_(context, config.tables, embedding_options(config)),
      weighted_bags_(context, config.weighted_tables, embedding_options(config)),
      positions_(context, parameters_, bags_.features(), config.position_weights),
      dense_arch_(context, parameters_, "dense", config.dense_features, dense_widths(config)),
      columns_(bags_.columns() + weighted_bags_.columns()),
      over_arch_(context, parameters_, "over",
                 interacted_columns(config, dense_arch_.outputs(), bags_, weighted_bags_),
                 with_logit(config.over_arch), Mlp::Last::linear),
      loss_(context.allocator(), 1, context.main(), context.tags().parameters) {
  parameters_.create();
}

void SparseNN::zero_gradients() { parameters_.zero_gradients(context_.main()); }

void SparseNN::check(const InputTensors& input, const SparseFeatures& features) const {
  const auto expect = [](std::string_view what, std::size_t found, std::size_t expected) {
    if (found == expected) return;
    throw std::invalid_argument(
        fmt::format("the batch has {} {}, and {} were expected", found, what, expected));
  };
  expect("dense features", input.dense_features, dense_features_);
  expect("labels", input.labels.as<float>().size(), input.batch_size);
  expect("dense values", input.dense.as<float>().size(), input.batch_size * dense_features_);
  if (!bags_.features().empty())
    expect("bags a key", features.unweighted.batch_size(), input.batch_size);
  if (!weighted_bags_.features().empty()) {
    expect("weighted bags a key", features.weighted.batch_size(), input.batch_size);
  }
}

void SparseNN::keep(const InputTensors& input, const SparseFeatures& features) {
  const StreamRef main = context_.main();
  batch_ = input.batch_size;
  features_ = features;
  kept_ = true;
  dense_ = context_.activation<float>(batch_ * dense_features_, main);
  if (dense_.size() == 0) return;
  context_.device().copy(dense_.data(), input.dense.data(), dense_.size() * sizeof(float),
                         CopyKind::device_to_device, main.handle());
}

void SparseNN::forward(const InputTensors& input, const SparseFeatures& features) {
  check(input, features);
  abandon();
  keep(input, features);
  look_up();
  dense_arch_.forward(dense_.data(), batch_, context_.main());
  interact();
  over_arch_.forward(interacted_.data(), batch_, context_.main());
  lose(input.labels);
}

void SparseNN::look_up() {
  const StreamRef main = context_.main();
  pooled_ = context_.activation<float>(batch_ * columns_, main);
  if (!positions_.empty()) {
    factors_ = context_.activation<float>(features_.unweighted.value_count(), main);
    positions_.forward(features_.unweighted, factors_.data(), main);
  }
  bags_.forward(features_.unweighted, factors_.data(), {pooled_.data(), columns_, 0}, main);
  weighted_bags_.forward(features_.weighted, nullptr, {pooled_.data(), columns_, bags_.columns()},
                         main);
}

void SparseNN::interact() {
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
        writes(interacted_), dense, reads(pooled_), shape);
    return;
  }
  const DotShape shape{batch_, features_of(bags_, weighted_bags_), width};
  interacted_ = context_.activation<float>(batch_ * shape.columns(), main);
  if (batch_ == 0) return;
  enqueue<host::dot_interaction<float>, cuda::dot_interaction>(
      context_, main,
      {.name = "interact",
       .flops = 2 * static_cast<double>(batch_ * shape.pairs() * width),
       .bytes = kScalar * static_cast<double>(interacted_.size() + pooled_.size())},
      writes(interacted_), dense, reads(pooled_), shape);
}

void SparseNN::lose(const BatchTensor& labels) {
  const StreamRef main = context_.main();
  dlogits_ = context_.activation<float>(batch_, main);
  logits_ = over_arch_.take_output();
  if (batch_ == 0) {
    context_.device().fill(loss_.data(), 0, sizeof(float), main.handle());
    return;
  }
  const auto examples = static_cast<double>(batch_);
  enqueue<host::binary_cross_entropy<float>, cuda::binary_cross_entropy>(
      context_, main, {.name = "loss", .flops = 10 * examples, .bytes = 3 * kScalar * examples},
      writes(loss_), writes(dlogits_), reads(logits_),
      reads(static_cast<const float*>(labels.data()), batch_));
}

Array<float> SparseNN::interact_backward(const Array<float>& gradient,
                                         Array<float>& dense_gradient) {
  const StreamRef main = context_.main();
  const std::size_t width = dense_arch_.outputs();
  dense_gradient = context_.activation<float>(batch_ * width, main);
  Array<float> pooled_gradient = context_.activation<float>(batch_ * columns_, main);
  if (batch_ == 0) return pooled_gradient;
  if (interaction_ == Interaction::concatenate) {
    enqueue<host::concatenate_backward<float>, cuda::concatenate_backward>(
        context_, main,
        {.name = "concatenate backward",
         .bytes = 2 * kScalar * static_cast<double>(gradient.size())},
        writes(dense_gradient), writes(pooled_gradient), reads(gradient),
        ConcatShape{batch_, width, columns_});
    return pooled_gradient;
  }
  const DotShape shape{batch_, features_of(bags_, weighted_bags_), width};
  enqueue<host::dot_interaction_backward<float>, cuda::dot_interaction_backward>(
      context_, main,
      {.name = "interact backward",
       .flops = 4 * static_cast<double>(batch_ * shape.pairs() * width),
       .bytes = kScalar * static_cast<double>(gradient.size() + 2 * pooled_.size())},
      writes(dense_gradient), writes(pooled_gradient), reads(gradient),
      reads(dense_arch_.output(), batch_ * width), reads(pooled_), shape);
  return pooled_gradient;
}

void SparseNN::update_tables(const Array<float>& gradient) {
  const StreamRef main = context_.main();
  if (!positions_.empty()) {
    const Array<float> dfactors =
        context_.activation<float>(features_.unweighted.value_count(), main);
    bags_.factor_gradients(features_.unweighted, {gradient.data(), columns_, 0}, dfactors.data(),
                           main);
    positions_.backward(features_.unweighted, dfactors.data(), main);
  }
  bags_.backward(features_.unweighted, factors_.data(), {gradient.data(), columns_, 0}, main);
  weighted_bags_.backward(features_.weighted, nullptr, {gradient.data(), columns_, bags_.columns()},
                          main);
}

void SparseNN::backward() {
  if (!kept_) throw std::logic_error("backward without a forward before it");
  const StreamRef main = context_.main();
  Array<float> dense_gradient;
  Array<float> gradient = over_arch_.backward(std::move(dlogits_), true, main);
  Array<float> pooled_gradient = interact_backward(gradient, dense_gradient);
  gradient = {};
  interacted_ = {};
  pooled_ = {};
  static_cast<void>(dense_arch_.backward(std::move(dense_gradient), false, main));
  update_tables(pooled_gradient);
  abandon();
}

void SparseNN::optimizer_step() { parameters_.step(context_.main()); }

void SparseNN::abandon() noexcept {
  kept_ = false;
  over_arch_.drop();
  dense_arch_.drop();
  for (Array<float>* array : {&dense_, &factors_, &pooled_, &interacted_, &dlogits_}) *array = {};
  features_ = {};
}

void SparseNN::check_ids() {
  for (EmbeddingBags* bags : {&bags_, &weighted_bags_}) {
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
  bags_.add_state(state, "table");
  weighted_bags_.add_state(state, "weighted_table");
  parameters_.add_state(state);
  return state;
}

}  // namespace millrace
