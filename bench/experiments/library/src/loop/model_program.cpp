#include "loop/model_program.hpp"

#include <cmath>
#include <utility>

namespace millrace::experiment {
namespace {

// Shares of the activations. The over-arch has the rest.
constexpr double kPooled = 0.25;
constexpr double kInteraction = 0.20;
constexpr double kDense = 0.05;
constexpr double kMask = 0.2;  // share of a layer's activations

// Shares of a step's compute time.
constexpr double kZeroGradients = 0.005;
constexpr double kLookUp = 0.09;
constexpr double kOutputExchange = 0.02;
constexpr double kDenseArch = 0.02;
constexpr double kInteract = 0.025;
constexpr double kOverArch = 0.17;
constexpr double kLoss = 0.005;
constexpr double kOptimizer = 0.005;
constexpr double kForward = kLookUp + kOutputExchange + kDenseArch + kInteract + kOverArch + kLoss;
constexpr double kBackwardOverForward = (1 - kZeroGradients - kOptimizer - kForward) / kForward;

constexpr std::size_t kOverArchWidth = 1024;

std::size_t part(std::size_t bytes, double share) {
  return static_cast<std::size_t>(static_cast<double>(bytes) * share);
}

std::size_t embedding_columns(const Workload& workload) {
  std::size_t columns = (workload.num_unweighted_features + workload.num_weighted_features) *
                        workload.embedding_feature_dim;
  for (const ExtraTable& table : workload.additional_tables) columns += table.embedding_dim;
  return columns;
}

std::size_t parameter_bytes(const Workload& workload) {
  if (workload.parameters) return *workload.parameters;
  const std::size_t first = embedding_columns(workload) + workload.num_float_features + 1;
  return (first + (workload.layers - 1) * kOverArchWidth) * kOverArchWidth * sizeof(float);
}

/** Number of ids in a batch, divided by the average number. */
double ids_over_mean(const InputTensors& input, const Workload& workload) {
  const auto features =
      static_cast<double>(workload.num_unweighted_features + workload.num_weighted_features +
                          workload.additional_tables.size());
  const double mean =
      features * workload.feature_pooling_avg * static_cast<double>(workload.batch_size);
  const auto ids =
      static_cast<double>(input.sparse.values().bytes() + input.weighted.values().bytes()) /
      sizeof(std::int64_t);
  return mean == 0 ? 1 : ids / mean;
}

}  // namespace

ModelProgram::ModelProgram(LoopWork& work, const Workload& workload, Nanoseconds step)
    : work_(work),
      workload_(workload),
      gathers_(work, workload, workload.layers),
      offloads_(work, workload, workload.layers),
      activations_tag_(work.setting().allocator.tag("activations")),
      step_(step),
      pooled_bytes_(part(workload.activations, kPooled)),
      interaction_bytes_(part(workload.activations, kInteraction)),
      dense_bytes_(part(workload.activations, kDense)) {
  const std::size_t tables = workload.table_bytes();
  const auto features =
      static_cast<double>(workload.num_unweighted_features + workload.num_weighted_features);
  const double weighted =
      features == 0 ? 0 : static_cast<double>(workload.num_weighted_features) / features;
  const Tag model = work.setting().allocator.tag("model");
  const auto keep = [&](std::size_t bytes) {
    return work.allocate(bytes, work.streams.main, model);
  };
  weighted_tables_ = keep(part(tables, weighted));
  unweighted_tables_ = keep(tables - weighted_tables_.size());
  parameters_ = keep(parameter_bytes(workload));
  gradients_ = keep(workload.gradients.value_or(parameter_bytes(workload)));
  optimizer_state_ = keep(workload.optimizer_state);
  plan_layers(workload);
}

void ModelProgram::plan_layers(const Workload& workload) {
  const double depth = static_cast<double>(workload.layers), ratio = workload.layer_ratio;
  const double first = (1 - kPooled - kInteraction - kDense) *
                       (ratio == 1 ? 1 / depth : (1 - ratio) / (1 - std::pow(ratio, depth)));
  layers_.resize(workload.layers);
  double share = first;
  for (Layer& layer : layers_) {
    layer.output_bytes = part(workload.activations, share * (1 - kMask));
    layer.mask_bytes = part(workload.activations, share * kMask);
    layers_bytes_ += static_cast<double>(layer.output_bytes + 1);
    share *= workload.layer_ratio;
  }
}

Cost ModelProgram::share(double weight) const {
  Cost cost;
  cost.fixed =
      Nanoseconds{static_cast<Nanoseconds::rep>(weight * static_cast<double>(step_.count()))};
  return cost;
}

std::size_t ModelProgram::scaled(std::size_t bytes) const {
  return scale_ == 1 ? bytes : part(bytes, scale_);
}

bool ModelProgram::is_kept(std::size_t layer) const {
  const std::size_t every = workload_.checkpoint_every;
  return every == 0 || (layer + 1) % every == 0 || layer + 1 == layers_.size();
}

void ModelProgram::zero_gradients() {
  if (batches_ % workload_.accumulate != 0) return;
  work_.launch(work_.streams.main, "zero gradients", share(kZeroGradients), {writes(gradients_)});
}

struct ModelProgram::Lookup final : TableLookup {
  explicit Lookup(StreamRef of) : stream(of) {}

  StreamRef stream;
  SparseFeatures features;
  Buffer pooled, gradient;
};

std::unique_ptr<TableLookup> ModelProgram::look_up(const SparseFeatures& features, Stream& stream) {
  auto lookup = std::make_unique<Lookup>(stream);
  lookup->features = features;
  const KeyedJaggedTensor& sparse = lookup->features.unweighted;
  const KeyedJaggedTensor& weights = lookup->features.weighted;
  Buffer unweighted = allocate(pooled_bytes_ / 2, stream);
  work_.launch(stream, "look up unweighted", share(kLookUp / 2),
               {reads(sparse.values()), reads(sparse.offsets()), reads(unweighted_tables_),
                writes(unweighted)});
  Buffer weighted = allocate(pooled_bytes_ / 2, stream);
  work_.launch(stream, "look up weighted", share(kLookUp / 2),
               {reads(weights.values()), reads(weights.offsets()), reads(weights.weights()),
                reads(weighted_tables_), writes(weighted)});
  lookup->pooled = allocate(pooled_bytes_, stream);
  work_.launch(stream, "exchange pooled", share(kOutputExchange),
               {reads(unweighted), reads(weighted), writes(lookup->pooled)});
  return lookup;
}

void ModelProgram::compute_layer(std::size_t index, const char* name) {
  Layer& layer = layers_[index];
  const Buffer& gathered = gathers_.next();
  layer.output = allocate(scaled(layer.output_bytes));
  layer.mask = allocate(scaled(layer.mask_bytes));
  const double weight = static_cast<double>(layer.output_bytes + 1) / layers_bytes_;
  work_.launch(work_.streams.main, name, share(kOverArch * weight),
               {reads(input_of(index)), reads(parameters_), reads(gathered), writes(layer.output),
                writes(layer.mask)});
}

void ModelProgram::forward_layers() {
  gathers_.begin(parameters_);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    compute_layer(i, "layer");
    gathers_.used(parameters_);
    if (is_kept(i)) {
      offload(i);
    } else {
      layers_[i].mask.reset();
    }
    if (i > 0 && (!is_kept(i - 1) || offloads_.offloads(i - 1))) layers_[i - 1].output.reset();
  }
}

void ModelProgram::offload(std::size_t layer) {
  if (!offloads_.offloads(layer)) return;
  offloads_.store(layer, layers_[layer]);
  layers_[layer].mask.reset();
}

void ModelProgram::bring_back(std::size_t layer) {
  KeptLayer back = offloads_.take(layer);
  if (back.output) layers_[layer].output = std::move(back.output);
  if (back.mask) layers_[layer].mask = std::move(back.mask);
}

void ModelProgram::forward(const InputTensors& input, TableLookup& of) {
  auto& lookup = static_cast<Lookup&>(of);
  if (lookup.stream.id() != work_.streams.main.id()) lookup.pooled.record_use(work_.streams.main);
  if (workload_.activations_by_ids > 0) {
    scale_ = 1 + workload_.activations_by_ids * (ids_over_mean(input, workload_) - 1);
  }
  dense_ = allocate(scaled(dense_bytes_));
  work_.launch(work_.streams.main, "dense arch", share(kDenseArch),
               {reads(input.dense), reads(parameters_), writes(dense_)});
  interaction_ = allocate(scaled(interaction_bytes_));
  work_.launch(work_.streams.main, "interact", share(kInteract),
               {reads(lookup.pooled), reads(dense_), writes(interaction_)});
  forward_layers();
  loss_ = allocate(sizeof(float));
  work_.launch(work_.streams.main, "loss", share(kLoss),
               {reads(layers_.back().output), reads(input.labels), writes(loss_)});
}

void ModelProgram::restore_layers(std::size_t last) {
  std::size_t first = last;
  while (first > 0 && !is_kept(first - 1)) --first;
  if (first > 0) bring_back(first - 1);
  for (std::size_t i = first; i <= last; ++i) {
    if (!is_kept(i) && !layers_[i].output) compute_layer(i, "layer again");
  }
}

Buffer ModelProgram::backward_layers() {
  Buffer gradient = allocate(layers_.back().output.size());
  work_.launch(work_.streams.main, "loss backward", share(kLoss * kBackwardOverForward),
               {reads(loss_), writes(gradient)});
  gathers_.begin(parameters_);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    offloads_.fetch_for(i);
    bring_back(i);
    restore_layers(i);
    Layer& layer = layers_[i];
    const Buffer& gathered = gathers_.next();
    Buffer input_gradient = allocate(input_of(i).size());
    Buffer whole_gradient = gathers_.gradient();
    const double weight = static_cast<double>(layer.output_bytes + 1) / layers_bytes_;
    const View to = whole_gradient ? writes(whole_gradient) : updates(gradients_);
    work_.launch(work_.streams.main, "layer backward",
                 share(kOverArch * weight * kBackwardOverForward),
                 {reads(gradient), reads(layer.mask), reads(input_of(i)), reads(parameters_),
                  reads(gathered), to, writes(input_gradient)});
    gathers_.used(parameters_);
    gathers_.reduce(std::move(whole_gradient), gradients_);
    layer.output.reset();
    layer.mask.reset();
    gradient = std::move(input_gradient);
  }
  gathers_.join();
  return gradient;
}

void ModelProgram::backward(TableLookup& of) {
  auto& lookup = static_cast<Lookup&>(of);
  Buffer gradient = backward_layers();
  lookup.gradient = allocate(pooled_bytes_);
  Buffer dense_gradient = allocate(dense_.size());
  work_.launch(work_.streams.main, "interact backward", share(kInteract * kBackwardOverForward),
               {reads(gradient), reads(lookup.pooled), reads(dense_), writes(lookup.gradient),
                writes(dense_gradient)});
  gradient.reset();
  interaction_.reset();
  lookup.pooled.reset();
  work_.launch(work_.streams.main, "dense arch backward", share(kDenseArch * kBackwardOverForward),
               {reads(dense_gradient), reads(dense_), updates(gradients_)});
  dense_gradient.reset();
  dense_.reset();
}

void ModelProgram::update_tables(TableLookup& of, Stream& stream) {
  auto& lookup = static_cast<Lookup&>(of);
  if (stream.id() != work_.streams.main.id()) lookup.gradient.record_use(stream);
  Buffer exchanged = allocate(pooled_bytes_, stream);
  work_.launch(stream, "exchange pooled backward", share(kOutputExchange * kBackwardOverForward),
               {reads(lookup.gradient), writes(exchanged)});
  lookup.gradient.reset();

  // Rows are sorted by id, and then each row is updated once. The keys and the positions of each
  // group need memory.
  const auto update = [&](const char* name, const BatchTensor& ids, Buffer& tables) {
    const Buffer sorted = allocate(ids.bytes(), stream);
    const Buffer positions = allocate(ids.bytes(), stream);
    work_.launch(
        stream, name, share(kLookUp / 2 * kBackwardOverForward),
        {reads(exchanged), reads(ids), writes(sorted), writes(positions), updates(tables)});
  };
  update("update unweighted", lookup.features.unweighted.values(), unweighted_tables_);
  update("update weighted", lookup.features.weighted.values(), weighted_tables_);
  exchanged.reset();
  loss_.reset();
  lookup.features = {};
}

void ModelProgram::optimizer_step() {
  ++batches_;
  if (batches_ % workload_.accumulate == 0) {
    work_.launch(work_.streams.main, "optimizer", share(kOptimizer),
                 {reads(gradients_), updates(parameters_), updates(optimizer_state_)});
  }
  if (workload_.evaluate_every > 0 && batches_ % workload_.evaluate_every == 0) {
    for (std::size_t i = 0; i < workload_.evaluation_batches; ++i) evaluate();
  }
}

// Like forward, but nothing is kept for backward. Each buffer lives until the next layer has read
// it.
void ModelProgram::evaluate() {
  const auto run = [&](const char* name, double weight, std::vector<View> views) {
    work_.launch(work_.streams.main, name, share(weight), std::move(views));
  };
  const Buffer batch = allocate(workload_.mean_batch_bytes());
  run("evaluate: load", 0, {writes(batch)});
  Buffer current = allocate(pooled_bytes_);
  run("evaluate: look up", kLookUp + kOutputExchange,
      {reads(batch), reads(unweighted_tables_), reads(weighted_tables_), writes(current)});
  const auto follow = [&](const char* name, double weight, std::size_t bytes,
                          const Buffer& gathered) {
    Buffer output = allocate(bytes);
    run(name, weight, {reads(current), reads(parameters_), reads(gathered), writes(output)});
    current = std::move(output);
  };
  follow("evaluate: interact", kDenseArch + kInteract, interaction_bytes_, {});
  gathers_.begin(parameters_);
  for (const Layer& layer : layers_) {
    const double weight = static_cast<double>(layer.output_bytes + 1) / layers_bytes_;
    follow("evaluate: layer", kOverArch * weight, layer.output_bytes, gathers_.next());
    gathers_.used(parameters_);
  }
}

void ModelProgram::swap_gradients(Buffer& other) {
  if (!other) {
    other = work_.allocate(gradients_.size(), work_.streams.main,
                           work_.setting().allocator.tag("model"));
  }
  std::swap(other, gradients_);
}

void ModelProgram::abandon() noexcept {
  gathers_.abandon();
  offloads_.abandon();
  for (Buffer* const kept : {&interaction_, &dense_, &loss_}) kept->reset();
  for (Layer& layer : layers_) {
    layer.output.reset();
    layer.mask.reset();
  }
}

}  // namespace millrace::experiment
