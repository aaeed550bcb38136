#include "millrace/pipeline/schedule/trainer.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "millrace/pipeline/model/metrics.hpp"
#include "millrace/pipeline/schedule/local_exchange.hpp"
#include "schedule/training/loss_log.hpp"

namespace millrace {
namespace {

std::size_t rows_of(const std::vector<TableConfig>& tables, const SparseFeature& feature) {
  for (const TableConfig& table : tables) {
    if (std::find(table.features.begin(), table.features.end(), feature.name) !=
        table.features.end()) {
      return table.rows;
    }
  }
  return feature.rows;
}

/** What the source's ids must be for the model. */
InputSchema schema_for(const SparseNNConfig& model, InputSchema schema) {
  for (SparseFeature& feature : schema.sparse) feature.rows = rows_of(model.tables, feature);
  for (SparseFeature& feature : schema.weighted) {
    feature.rows = rows_of(model.weighted_tables, feature);
  }
  return schema;
}

/** Checks ids, and knows how large the batches are that are in flight. */
class WatchedSource final : public BatchSource {
 public:
  WatchedSource(EpochSource& source, InputSchema schema)
      : source_(source), schema_(std::move(schema)) {}

  [[nodiscard]] EpochSource& source() noexcept { return source_; }
  [[nodiscard]] const InputSchema& schema() const noexcept { return schema_; }
  [[nodiscard]] std::size_t take_size() {
    const std::size_t size = sizes_.front();
    sizes_.pop_front();
    return size;
  }
  void begin(BatchPosition position) {
    source_.seek(position);
    resume();
  }
  void draw_at_most(std::uint64_t more) noexcept { left_ = more; }

 private:
  std::optional<ModelInput> do_next() override {
    if (left_ == 0) return std::nullopt;
    std::optional<ModelInput> batch = source_.next();
    if (!batch) return batch;
    --left_;
    check_ids(batch->contents(), schema_);
    sizes_.push_back(batch->batch_size());
    return batch;
  }

  EpochSource& source_;
  const InputSchema schema_;
  std::deque<std::size_t> sizes_;
  std::uint64_t left_ = std::numeric_limits<std::uint64_t>::max();
};

class NoBatches final : public BatchSource {
  std::optional<ModelInput> do_next() override { return std::nullopt; }
};

}  // namespace

struct Trainer::Parts {
  Parts(TrainingDevice& given, const SparseNNConfig& config, EpochSource& batches)
      : device(given),
        context(device.memory(), device.streams().main),
        model(context, config),
        exchange(device.memory(), model.bags().features(), model.weighted_bags().features()),
        losses(device.staging().pinned, device.streams().main),
        source(batches, schema_for(config, batches.schema())),
        pipeline(TrainPipeline::make(device.options().pipeline,
                                     {.streams = device.streams(),
                                      .batches = device.batches(),
                                      .model = model,
                                      .exchange = exchange},
                                     {.copy = device.options().copy,
                                      .waits = device.options().waits,
                                      .lookup = device.options().lookup,
                                      .stale = device.options().stale,
                                      .savers = device.options().savers})) {}

  bool advance(BatchSource& from) {
    if (!pipeline->progress(from)) return false;
    const std::size_t examples = source.take_size();
    losses.add(model, examples);
    progress.examples += examples;
    ++progress.steps;
    ++steps;
    device.sample();
    return true;
  }

  std::vector<float> predict(const ModelInput& batch, CopyStrategy& strategy) {
    PipelineStreams& streams = device.streams();
    DeviceModelInput input = batch.to(strategy, streams.copy);
    input.hand_to(streams.main);
    const std::unique_ptr<FeatureExchange> exchanged =
        exchange.start(input.tensors(), streams.main);
    exchanged->receive(device.options().waits);
    const std::unique_ptr<TableLookup> lookup = model.look_up(exchanged->arrange(), streams.main);
    model.forward(input.tensors(), *lookup);
    input.release();
    device.sample();
    std::vector<float> logits = model.logits();
    model.abandon();
    return logits;
  }

  TrainingDevice& device;
  ModelContext context;
  SparseNN model;
  LocalExchange exchange;
  LossLog losses;
  WatchedSource source;
  std::unique_ptr<TrainPipeline> pipeline;
  TrainingProgress progress;
  std::uint64_t steps = 0;
};

Trainer::Trainer(TrainingDevice& device, const SparseNNConfig& model, EpochSource& source)
    : parts_(std::make_unique<Parts>(device, model, source)) {}

Trainer::~Trainer() = default;

bool Trainer::step() { return parts_->advance(parts_->source); }

void Trainer::stop_at(std::uint64_t steps) noexcept {
  parts_->source.draw_at_most(steps - std::min(steps, parts_->steps));
}

void Trainer::drain() {
  NoBatches none;
  while (parts_->advance(none)) {
  }
}

std::uint64_t Trainer::steps() const noexcept { return parts_->steps; }

void Trainer::resume(std::uint64_t steps, BatchPosition position) {
  parts_->steps = steps;
  parts_->source.begin(position);
}

TrainingProgress Trainer::take_progress() {
  TrainingProgress progress = std::exchange(parts_->progress, {});
  const double sum = parts_->losses.take_sum();
  if (progress.examples > 0) progress.loss = sum / static_cast<double>(progress.examples);
  return progress;
}

Evaluation Trainer::evaluate(EpochSource& source) {
  TrainingDevice& device = parts_->device;
  const auto strategy =
      CopyStrategy::make(CopyMethod::in_place, {.allocator = device.memory(),
                                                .main = device.streams().main,
                                                .copy = device.streams().copy,
                                                .tag = device.memory().tag("batch")});
  std::vector<float> logits, labels;
  while (std::optional<ModelInput> batch = source.next()) {
    check_ids(batch->contents(), parts_->source.schema());
    const std::vector<float> of_batch = parts_->predict(*batch, *strategy);
    const auto wanted = batch->contents().labels.as<const float>();
    logits.insert(logits.end(), of_batch.begin(), of_batch.end());
    labels.insert(labels.end(), wanted.begin(), wanted.end());
  }
  return {.examples = labels.size(),
          .loss = mean_log_loss(logits, labels),
          .auc = area_under_curve(logits, labels)};
}

SparseNN& Trainer::model() noexcept { return parts_->model; }
ModelContext& Trainer::context() noexcept { return parts_->context; }

}  // namespace millrace
