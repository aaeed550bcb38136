#include "loop/model_program.hpp"

#include <cmath>
#include <utility>

namespace millrace::experiment {
namespace {

// Shares of the activations. The rest is the over-arch's.
constexpr double kPooled = 0.25;
constexpr double kInteraction = 0.20;
constexpr double kDense = 0.05;
constexpr double kShrink = 0.85;  // of a layer over the one before
constexpr double kMask = 0.2;     // of a layer's activations

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
  const std::size_t first = embedding_columns(workload) + workload.num_float_features + 1;
  return (first + (workload.layers - 1) * kOverArchWidth) * kOverArchWidth * sizeof(float);
}

}  // namespace

ModelProgram::ModelProgram(LoopWork& work, const Workload& workload, Nanoseconds step)
    : work_(work),
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
  gradients_ = keep(parameter_bytes(workload));
  plan_layers(workload);
}

void ModelProgram::plan_layers(const Workload& workload) {
  const double depth = static_cast<double>(workload.layers);
  const double first =
      (1 - kPooled - kInteraction - kDense) * (1 - kShrink) / (1 - std::pow(kShrink, depth));
  layers_.resize(workload.layers);
  double share = first;
  for (Layer& layer : layers_) {
    layer.output_bytes = part(workload.activations, share * (1 - kMask));
    layer.mask_bytes = part(workload.activations, share * kMask);
    share *= kShrink;
  }
}

Cost ModelProgram::share(double weight) const {
  Cost cost;
  cost.fixed =
      Nanoseconds{static_cast<Nanoseconds::rep>(weight * static_cast<double>(step_.count()))};
  return cost;
}

void ModelProgram::zero_gradients() {
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

void ModelProgram::forward_layers() {
  double total = 0;
  for (const Layer& layer : layers_) total += static_cast<double>(layer.output_bytes + 1);
  const Buffer* input = &interaction_;
  for (Layer& layer : layers_) {
    layer.output = allocate(layer.output_bytes);
    layer.mask = allocate(layer.mask_bytes);
    const double weight = static_cast<double>(layer.output_bytes + 1) / total;
    work_.launch(work_.streams.main, "layer", share(kOverArch * weight),
                 {reads(*input), reads(parameters_), writes(layer.output), writes(layer.mask)});
    input = &layer.output;
  }
}

void ModelProgram::forward(const InputTensors& input, TableLookup& of) {
  auto& lookup = static_cast<Lookup&>(of);
  if (lookup.stream.id() != work_.streams.main.id()) lookup.pooled.record_use(work_.streams.main);
  dense_ = allocate(dense_bytes_);
  work_.launch(work_.streams.main, "dense arch", share(kDenseArch),
               {reads(input.dense), reads(parameters_), writes(dense_)});
  interaction_ = allocate(interaction_bytes_);
  work_.launch(work_.streams.main, "interact", share(kInteract),
               {reads(lookup.pooled), reads(dense_), writes(interaction_)});
  forward_layers();
  loss_ = allocate(sizeof(float));
  work_.launch(work_.streams.main, "loss", share(kLoss),
               {reads(layers_.back().output), reads(input.labels), writes(loss_)});
}

Buffer ModelProgram::backward_layers() {
  double total = 0;
  for (const Layer& layer : layers_) total += static_cast<double>(layer.output_bytes + 1);
  Buffer gradient = allocate(layers_.back().output_bytes);
  work_.launch(work_.streams.main, "loss backward", share(kLoss * kBackwardOverForward),
               {reads(loss_), writes(gradient)});
  for (std::size_t i = layers_.size(); i-- > 0;) {
    Layer& layer = layers_[i];
    const Buffer& input = i == 0 ? interaction_ : layers_[i - 1].output;
    Buffer input_gradient = allocate(input.size());
    const double weight = static_cast<double>(layer.output_bytes + 1) / total;
    work_.launch(work_.streams.main, "layer backward",
                 share(kOverArch * weight * kBackwardOverForward),
                 {reads(gradient), reads(layer.mask), reads(input), reads(parameters_),
                  updates(gradients_), writes(input_gradient)});
    layer.output.reset();
    layer.mask.reset();
    gradient = std::move(input_gradient);
  }
  return gradient;
}

void ModelProgram::backward(TableLookup& of) {
  auto& lookup = static_cast<Lookup&>(of);
  Buffer gradient = backward_layers();
  lookup.gradient = allocate(pooled_bytes_);
  Buffer dense_gradient = allocate(dense_bytes_);
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

  // Rows are sorted by id before each is updated once: keys and positions, for each group.
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
  work_.launch(work_.streams.main, "optimizer", share(kOptimizer),
               {reads(gradients_), updates(parameters_)});
}

void ModelProgram::swap_gradients(Buffer& other) {
  if (!other) {
    other = work_.allocate(gradients_.size(), work_.streams.main,
                           work_.setting().allocator.tag("model"));
  }
  std::swap(other, gradients_);
}

void ModelProgram::abandon() noexcept {
  for (Buffer* const kept : {&interaction_, &dense_, &loss_}) kept->reset();
  for (Layer& layer : layers_) {
    layer.output.reset();
    layer.mask.reset();
  }
}

}  // namespace millrace::experiment
