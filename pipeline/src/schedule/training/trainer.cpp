#include "millrace/pipeline/schedule/trainer.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "millrace/pipeline/model/metrics.hpp"
#include "millrace/pipeline/schedule/eval_pipeline.hpp"
#include "millrace/pipeline/schedule/local_exchange.hpp"
#include "millrace/pipeline/sharding/sharded_model.hpp"
#include "millrace/round_up.hpp"
#include "schedule/training/across_ranks.hpp"
#include "schedule/training/carried_state.hpp"
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

/** Returns the source's schema with the numbers of rows of the model's tables, to check ids. */
InputSchema schema_for(const SparseNNConfig& model, InputSchema schema) {
  for (SparseFeature& feature : schema.sparse) feature.rows = rows_of(model.tables, feature);
  for (SparseFeature& feature : schema.weighted) {
    feature.rows = rows_of(model.weighted_tables, feature);
  }
  return schema;
}

/** Checks ids, and keeps the sizes of the batches in flight. */
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

/** Checks ids, and keeps the labels of the batches that it returned. */
class TestedSource final : public BatchSource {
 public:
  TestedSource(EpochSource& source, const InputSchema& schema) : source_(source), schema_(schema) {}

  [[nodiscard]] const std::vector<float>& labels() const noexcept { return labels_; }

 private:
  std::optional<ModelInput> do_next() override {
    std::optional<ModelInput> batch = source_.next();
    if (!batch) return batch;
    check_ids(batch->contents(), schema_);
    const auto labels = batch->contents().labels.as<const float>();
    labels_.insert(labels_.end(), labels.begin(), labels.end());
    return batch;
  }

  EpochSource& source_;
  const InputSchema& schema_;
  std::vector<float> labels_;
};

class NoBatches final : public BatchSource {
  std::optional<ModelInput> do_next() override { return std::nullopt; }
};

/**
 * Returns the number of dense parameters that belong to data-parallel tables, in the layout of
 * EmbeddingBags and DenseParameters.
 */
std::size_t in_data_parallel_tables(const SparseNNConfig& config, const ShardingPlan& plan) {
  constexpr std::size_t kAlignment = 16;
  std::size_t size = 0;
  const auto add = [&](const std::vector<TableConfig>& tables,
                       const std::vector<TablePlacement>& placements) {
    for (std::size_t i = 0; i < tables.size(); ++i) {
      if (placements[i].sharding != Sharding::data_parallel) continue;
      size += round_up(tables[i].rows * tables[i].width, kAlignment);
    }
  };
  add(config.tables, plan.tables);
  add(config.weighted_tables, plan.weighted_tables);
  return size;
}

Evaluation evaluation_of(const std::vector<float>& logits, const std::vector<float>& labels) {
  return {.examples = labels.size(),
          .loss = mean_log_loss(logits, labels),
          .auc = area_under_curve(logits, labels)};
}

}  // namespace

struct Trainer::Parts {
  Parts(TrainingDevice& given, const SparseNNConfig& config, EpochSource& batches,
        const std::optional<TrainingRank>& rank)
      : device(given),
        context(device.memory(), device.streams().main),
        group(rank ? &rank->group : nullptr),
        sharded(rank ? std::make_unique<ShardedModel>(config, rank->plan, rank->group) : nullptr),
        model(context, config, sharded ? sharded->embeddings() : LocalEmbeddings::make,
              sharded ? sharded->reduction() : nullptr),
        exchange(sharded ? sharded->exchange(context) : local_exchange()),
        everywhere(rank ? in_data_parallel_tables(config, rank->plan) : 0),
        losses(device.staging().pinned, device.streams().main),
        source(batches, schema_for(config, batches.schema())),
        pipeline(TrainPipeline::make(device.options().pipeline,
                                     {.streams = device.streams(),
                                      .batches = device.batches(),
                                      .model = model,
                                      .exchange = *exchange},
                                     {.copy = device.options().copy,
                                      .waits = device.options().waits,
                                      .copies_ahead = device.options().copies_ahead,
                                      .lookup = device.options().lookup,
                                      .stale = device.options().stale,
                                      .savers = device.options().savers})),
        carried(model, context, *pipeline, group) {
    // A checkpoint saves the dense parameters that the lookup ahead has read.
    if (looks_ahead()) model.keep_values_of_lookups();
  }

  /** Returns whether lookups are made before the step of their batch, and lack an update. */
  [[nodiscard]] bool looks_ahead() const { return traits_of(device.options().pipeline).stale; }

  std::unique_ptr<SparseExchange> local_exchange() {
    return std::make_unique<LocalExchange>(device.memory(), model.bags().features(),
                                           model.weighted_bags().features());
  }

  bool advance(BatchSource& from) {
    carried.give_back();
    if (!pipeline->progress(from)) return false;
    const std::size_t examples = source.take_size();
    losses.add(model, examples);
    progress.examples += examples;
    ++progress.steps;
    ++steps;
    device.sample();
    return true;
  }

  [[nodiscard]] EvalPipeline evaluation() {
    const TrainingOptions& options = device.options();
    return {traits_of(options.pipeline).evaluated_by.value_or(options.pipeline),
            {.streams = device.streams(),
             .batches = device.batches(),
             .model = model,
             .exchange = *exchange},
            {.copy = options.copy,
             .waits = options.waits,
             .copies_ahead = options.copies_ahead,
             .lookup = options.lookup,
             .savers = options.savers}};
  }

  TrainingDevice& device;
  ModelContext context;
  ProcessGroup* const group;  ///< nullptr for one rank
  const std::unique_ptr<ShardedModel> sharded;
  SparseNN model;
  const std::unique_ptr<SparseExchange> exchange;
  const std::size_t everywhere;  ///< number of dense parameters in data-parallel tables
  LossLog losses;
  WatchedSource source;
  std::unique_ptr<TrainPipeline> pipeline;
  CarriedState carried;
  TrainingProgress progress;
  std::uint64_t steps = 0;
  std::uint64_t most_steps = std::numeric_limits<std::uint64_t>::max();
};

Trainer::Trainer(TrainingDevice& device, const SparseNNConfig& model, EpochSource& source,
                 const std::optional<TrainingRank>& rank)
    : parts_(std::make_unique<Parts>(device, model, source, rank)) {}

Trainer::~Trainer() = default;

bool Trainer::step() {
  return parts_->steps < parts_->most_steps && parts_->advance(parts_->source);
}

void Trainer::stop_at(std::uint64_t steps) noexcept {
  parts_->most_steps = steps;
  const std::uint64_t more = steps - std::min(steps, parts_->steps);
  // A stale pipeline looks up one batch more than it trains on.
  parts_->source.draw_at_most(parts_->looks_ahead() ? more + 1 : more);
}

void Trainer::drain() {
  // A stale pipeline trains none of the batches in flight. The checkpoint keeps the state that the
  // next step needs of them, so saving does not change the result.
  if (parts_->looks_ahead()) return parts_->carried.take();
  NoBatches none;
  while (parts_->advance(none)) {
  }
}

std::uint64_t Trainer::steps() const noexcept { return parts_->steps; }

void Trainer::resume(std::uint64_t steps, BatchPosition position) {
  parts_->steps = steps;
  parts_->pipeline->count_from(steps);
  parts_->carried.drop();
  parts_->source.begin(position);
}

std::size_t Trainer::restore(const Checkpoint& checkpoint) {
  const std::size_t anew = checkpoint.restore(state(), context()).size();
  resume(checkpoint.header().steps, checkpoint.header().position);
  if (parts_->looks_ahead()) {
    parts_->carried.restore(checkpoint, parts_->device.options().stale.stash_gradients);
  }
  return anew;
}

TrainingProgress Trainer::take_progress() {
  TrainingProgress progress = std::exchange(parts_->progress, {});
  double sum = parts_->losses.take_sum();
  if (parts_->group != nullptr) add_up(*parts_->group, sum, progress.examples);
  if (progress.examples > 0) progress.loss = sum / static_cast<double>(progress.examples);
  return progress;
}

std::optional<std::uint64_t> Trainer::diverged_at() const noexcept {
  const auto first = parts_->losses.first_not_finite();
  if (!first) return std::nullopt;
  const std::uint64_t before = parts_->steps - parts_->losses.added();  // steps of earlier trainers
  return before + *first + 1;
}

void Trainer::check_losses() { parts_->losses.collect(); }

Evaluation Trainer::evaluate(EpochSource& source) {
  TestedSource batches{source, parts_->source.schema()};
  std::vector<float> logits;
  {
    EvalPipeline pipeline = parts_->evaluation();
    while (pipeline.progress(batches)) {
      parts_->device.sample();
      const std::vector<float> of_batch = parts_->model.logits();
      logits.insert(logits.end(), of_batch.begin(), of_batch.end());
    }
  }
  if (parts_->group == nullptr) return evaluation_of(logits, batches.labels());
  // The area under the curve is not a sum over ranks: rank 0 gets all logits and labels, and the
  // other ranks its result.
  Stream& main = parts_->device.streams().main;
  logits = gathered(*parts_->group, logits, parts_->device.memory(), main);
  const std::vector<float> labels =
      gathered(*parts_->group, batches.labels(), parts_->device.memory(), main);
  return received_from_first(*parts_->group, evaluation_of(logits, labels));
}

std::unique_ptr<WholeState> Trainer::whole_state() {
  Parts& parts = *parts_;
  if (parts.sharded) return parts.sharded->whole_state(parts.model, parts.context);
  return std::make_unique<LocalState>(parts.model.state(), parts.context);
}

std::unique_ptr<WholeState> Trainer::checkpoint_state() {
  Parts& parts = *parts_;
  const std::vector<TensorOfRanks> beside = parts.carried.tensors();
  if (parts.sharded) return parts.sharded->whole_state(parts.model, parts.context, beside);
  ModelState state = parts.model.state();
  for (const TensorOfRanks& tensor : beside) state.tensors.push_back(tensor.here);
  return std::make_unique<LocalState>(std::move(state), parts.context);
}

ModelState Trainer::state() {
  return parts_->sharded ? parts_->sharded->state(parts_->model) : parts_->model.state();
}

std::size_t Trainer::dense_parameters() const noexcept {
  return parts_->model.parameters().size() - parts_->everywhere;
}

SparseNN& Trainer::model() noexcept { return parts_->model; }
ModelContext& Trainer::context() noexcept { return parts_->context; }

}  // namespace millrace
