#include "test/pipeline/sharding/sharded_rig.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/pipeline/data/jagged_operations.hpp"
#include "millrace/pipeline/schedule/local_exchange.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kRigMemory = std::size_t{1} << 28;

std::vector<std::string> features_of(const std::vector<TableConfig>& tables) {
  std::vector<std::string> all;
  for (const TableConfig& table : tables) {
    all.insert(all.end(), table.features.begin(), table.features.end());
  }
  return all;
}

std::vector<GlobalBatch::Feature> drawn(const std::vector<TableConfig>& tables,
                                        std::size_t examples, bool weighted,
                                        std::mt19937_64& random) {
  std::vector<GlobalBatch::Feature> all;
  for (const TableConfig& table : tables) {
    for (std::size_t f = 0; f < table.features.size(); ++f) {
      GlobalBatch::Feature feature;
      for (std::size_t e = 0; e < examples; ++e) {
        feature.bags.emplace_back(random() % 4);
        feature.weights.emplace_back(weighted ? feature.bags.back().size() : 0);
        for (auto& id : feature.bags.back()) id = static_cast<std::int64_t>(random() % table.rows);
        for (float& weight : feature.weights.back()) weight = static_cast<float>(random() % 8) / 4;
      }
      all.push_back(std::move(feature));
    }
  }
  return all;
}

}  // namespace

GlobalBatch::GlobalBatch(const SparseNNConfig& config, std::size_t step, std::size_t count)
    : examples(count) {
  std::mt19937_64 random{step + 1};
  for (std::size_t i = 0; i < count * config.dense_features; ++i) {
    dense.push_back(static_cast<float>(random() % 64) / 32 - 1);
  }
  for (std::size_t i = 0; i < count; ++i) labels.push_back(static_cast<float>(random() % 2));
  features = drawn(config.tables, count, false, random);
  weighted = drawn(config.weighted_tables, count, true, random);
}

SparseNNConfig sharded_config() {
  SparseNNConfig config;
  config.dense_features = 3;
  config.tables = {{"users", 23, 4, Pooling::sum, {"user", "friend"}},
                   {"items", 17, 8, Pooling::mean, {"item"}},
                   {"small", 7, 4, Pooling::sum, {"day"}},
                   {"shops", 40, 4, Pooling::sum, {"shop"}}};
  config.weighted_tables = {{"words", 31, 4, Pooling::sum, {"title", "text"}},
                            {"tags", 11, 8, Pooling::mean, {"tag"}}};
  config.dense_arch = {5};
  config.over_arch = {6};
  config.interaction = Interaction::concatenate;
  config.table_optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 0.1F};
  config.dense_optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 0.1F};
  return config;
}

const std::vector<float>& Trained::at(const std::string& name) const {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) throw std::out_of_range{"there is no tensor " + name};
  return values[static_cast<std::size_t>(found - names.begin())];
}

namespace {

PipelineStreams all_streams(OrderedDevice& device) {
  PipelineStreams streams{device, PipelineKind::fused_sparse_dist};
  streams.add("prefetch");
  return streams;
}

}  // namespace

ShardedRank::ShardedRank(OrderedDevice& device, const RankSetup& setup,
                         const SparseNNConfig& config, const ShardingPlan& plan,
                         ProcessGroup* group)
    : config_(config),
      checking_(setup.checking),
      device_(device.device()),
      source_(device_),
      pinned_source_(device_),
      caching_(device, source_, setup.policy),
      caching_pinned_(device, pinned_source_, Policy::pinned()),
      memory_(checked(setup, caching_, checked_, CheckedMemory::device)),
      pool_(device),
      batches_(setup.batches_from_driver ? static_cast<Allocator&>(pool_) : memory_, "batch"),
      features_(memory_, "features"),
      model_memory_(memory_, "model's"),
      pinned_(checked(setup, caching_pinned_, checked_pinned_, CheckedMemory::pinned),
              "host batch"),
      streams_(all_streams(device)),
      main_(streams_.main),
      context_(model_memory_, main_, setup.cost_only),
      exchange_context_(features_, main_, setup.cost_only) {
  for (TamperedAllocator* const part : {&batches_, &features_, &model_memory_, &pinned_}) {
    part->leave_out(setup.left_out);
  }
  if (group == nullptr) {
    model_ = std::make_unique<SparseNN>(context_, config_);
    exchange_ = std::make_unique<LocalExchange>(memory_, features_of(config_.tables),
                                                features_of(config_.weighted_tables));
    return;
  }
  sharded_.emplace(config_, plan, *group);
  model_ =
      std::make_unique<SparseNN>(context_, config_, sharded_->embeddings(), sharded_->reduction());
  exchange_ = sharded_->exchange(exchange_context_);
}

ShardedRank::~ShardedRank() = default;

Allocator& ShardedRank::checked(const RankSetup& setup, Allocator& memory,
                                std::optional<CheckedAllocator>& checked, CheckedMemory kind) {
  if (setup.checking == nullptr) return memory;
  return checked.emplace(memory, *setup.checking, setup.seen == nullptr ? device_ : *setup.seen,
                         kind);
}

std::set<std::string> ShardedRank::tellings() const {
  std::set<std::string> tellings;
  for (const TamperedAllocator* const part : {&batches_, &features_, &model_memory_, &pinned_}) {
    for (const auto& [telling, times] : part->reports()) tellings.insert(telling);
  }
  return tellings;
}

BatchTensor ShardedRank::uploaded(const void* from, std::size_t bytes) {
  BatchTensor tensor{memory_, bytes, main_};
  if (bytes > 0) {
    const auto* const begin = static_cast<const std::byte*>(from);
    const auto& kept = uploaded_from_.emplace_back(begin, begin + bytes);
    device_.copy(tensor.data(), kept.data(), bytes, CopyKind::host_to_device, main_.handle());
  }
  return tensor;
}

/// Features of some examples, on the host.
struct ShardedRank::Jagged {
  Jagged(const std::vector<TableConfig>& tables, const std::vector<GlobalBatch::Feature>& features,
         bool weighted, std::size_t first, std::size_t count) {
    if (tables.empty()) return;
    layout = {.keys = make_keys(features_of(tables)), .batch_size = count, .weighted = weighted};
    offsets.push_back(0);
    for (const GlobalBatch::Feature& feature : features) {
      const std::size_t before = values.size();
      for (std::size_t e = first; e < first + count; ++e) {
        lengths.push_back(static_cast<std::int32_t>(feature.bags[e].size()));
        offsets.push_back(offsets.back() + lengths.back());
        values.insert(values.end(), feature.bags[e].begin(), feature.bags[e].end());
        weights.insert(weights.end(), feature.weights[e].begin(), feature.weights[e].end());
      }
      layout.counts.push_back(values.size() - before);
    }
  }

  JaggedLayout layout;
  std::vector<std::int32_t> lengths, offsets;
  std::vector<std::int64_t> values;
  std::vector<float> weights;
};

KeyedJaggedTensor ShardedRank::uploaded(const Jagged& features) {
  const auto upload = [&](const auto& all) {
    return uploaded(all.data(), all.size() * sizeof(all[0]));
  };
  return {features.layout,
          {.values = upload(features.values),
           .lengths = upload(features.lengths),
           .offsets = upload(features.offsets),
           .weights = upload(features.weights)}};
}

InputTensors ShardedRank::input(const GlobalBatch& batch, std::size_t first, std::size_t count) {
  const std::size_t width = config_.dense_features;
  return {
      .batch_size = count,
      .dense_features = width,
      .dense = uploaded(batch.dense.data() + first * width, count * width * sizeof(float)),
      .labels = uploaded(batch.labels.data() + first, count * sizeof(float)),
      .sparse = uploaded(Jagged{config_.tables, batch.features, false, first, count}),
      .weighted = uploaded(Jagged{config_.weighted_tables, batch.weighted, true, first, count})};
}

std::unique_ptr<FeatureExchange> ShardedRank::start(const GlobalBatch& batch, std::size_t first,
                                                    std::size_t count) {
  return exchange_->start(input(batch, first, count), main_);
}

void ShardedRank::train(const GlobalBatch& batch, std::size_t first, std::size_t count,
                        const SparseFeatures& features) {
  train_plainly(*model_, main_, input(batch, first, count), features);
}

void ShardedRank::step(const GlobalBatch& batch, std::size_t first, std::size_t count) {
  const InputTensors of_step = input(batch, first, count);
  const auto features = exchange_->start(of_step, main_);
  features->receive(Waits::precise);
  train_plainly(*model_, main_, of_step, features->arrange());
}

/// The batches of one rank's steps, in pinned memory.
class ShardedRank::Source final : public BatchSource {
 public:
  Source(ShardedRank& rank, std::size_t steps, std::size_t examples, std::size_t first,
         std::size_t count)
      : rank_(rank), steps_(steps), examples_(examples), first_(first), count_(count) {}

 private:
  std::optional<ModelInput> do_next() override {
    if (step_ == steps_) return std::nullopt;
    const SparseNNConfig& config = rank_.config_;
    const GlobalBatch batch{config, step_++, examples_};
    const Jagged sparse{config.tables, batch.features, false, first_, count_};
    const Jagged weighted{config.weighted_tables, batch.weighted, true, first_, count_};
    ModelInput host{rank_.pinned_,
                    rank_.streams_.copy,
                    {.batch_size = count_,
                     .dense_features = config.dense_features,
                     .labeled = true,
                     .sparse = sparse.layout,
                     .weighted = weighted.layout}};
    const InputTensors& to = host.contents();
    write(batch.dense.data() + first_ * config.dense_features, to.dense);
    write(batch.labels.data() + first_, to.labels);
    write(sparse, to.sparse);
    write(weighted, to.weighted);
    return host;
  }

  void write(const Jagged& from, const KeyedJaggedTensor& to) {
    write(from.lengths.data(), to.lengths());
    write(from.offsets.data(), to.offsets());
    write(from.values.data(), to.values());
    write(from.weights.data(), to.weights());
  }

  void write(const void* from, const BatchTensor& to) {
    if (to.empty()) return;
    if (rank_.checking_ != nullptr) rank_.checking_->host_writes(to.data(), to.bytes(), "load");
    std::memcpy(to.data(), from, to.bytes());
  }

  ShardedRank& rank_;
  const std::size_t steps_, examples_, first_, count_;
  std::size_t step_ = 0;
};

void ShardedRank::run(PipelineKind kind, const PipelineOptions& options, std::size_t steps,
                      std::size_t examples, std::size_t first, std::size_t count) {
  Source source{*this, steps, examples, first, count};
  PipelineOptions exact = options;
  exact.lookup.order_after_dense = !model_->dense_parameters_of_lookups().empty();
  const auto pipeline = TrainPipeline::make(
      kind, {.streams = streams_, .batches = batches_, .model = *model_, .exchange = *exchange_},
      exact);
  for (bool more = true; more;) {
    try {
      more = pipeline->progress(source);
    } catch (const DeviceError&) {
      if (!goes_on) throw;
    }
  }
}

void ShardedRank::run_stale(const StaleOptions& options, std::size_t steps, std::size_t examples,
                            std::size_t first, std::size_t count) {
  struct Step {
    InputTensors input;
    std::unique_ptr<TableLookup> lookup;
  };
  const auto looked_up = [&](std::size_t number) {
    Step step{input(GlobalBatch{config_, number, examples}, first, count), nullptr};
    const auto features = exchange_->start(step.input, main_);
    features->receive(Waits::precise);
    step.lookup = model_->look_up(features->arrange(), main_);
    return step;
  };
  Buffer stash;
  Step now = looked_up(0), next;
  for (std::size_t number = 0; number < steps; ++number) {
    const bool stale = number >= options.start_batch, last = number + 1 == steps;
    model_->zero_gradients();
    model_->forward(now.input, *now.lookup);
    if (stale && !last) next = looked_up(number + 1);
    model_->backward(*now.lookup);
    model_->update_tables(*now.lookup, main_);
    const bool nothing_stashed = !stash;
    const bool stashes = stale && options.stash_gradients;
    if (stashes) model_->swap_gradients(stash);
    if (!stashes || !nothing_stashed) model_->optimizer_step();
    if (!stale && !last) next = looked_up(number + 1);
    now = std::move(next);
  }
}

Trained ShardedRank::trained() {
  Trained all;
  for (const StateTensor& tensor : model_->state().tensors) {
    all.names.push_back(tensor.name);
    all.values.emplace_back(tensor.size);
    device_.copy(all.values.back().data(), tensor.data, tensor.size * sizeof(float),
                 tensor.download(), main_.handle());
  }
  main_.synchronize();
  return all;
}

Trained trained_alone(const SparseNNConfig& config, std::size_t steps, std::size_t examples) {
  VirtualMachine machine;
  OrderedDevice device{machine.add_device({.memory_bytes = kRigMemory})};
  ShardedRank rank{device, nullptr, config, {}, nullptr};
  for (std::size_t step = 0; step < steps; ++step) {
    rank.step(GlobalBatch{config, step, examples}, 0, examples);
  }
  return rank.trained();
}

double difference(const SparseNNConfig& config, const ShardingPlan& plan, const Trained& alone,
                  unsigned rank, const Trained& of_rank) {
  double most = 0;
  const auto compare = [&](std::span<const float> expected, const std::vector<float>& found) {
    if (expected.size() != found.size()) throw std::runtime_error{"tensors of different sizes"};
    double largest = 1e-30, off = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
      off = std::max(off, std::abs(static_cast<double>(expected[i]) - found[i]));
    }
    most = std::max(most, off / largest);
  };
  const auto compare_tables = [&](const std::string& prefix, const std::vector<TableConfig>& tables,
                                  const std::vector<TablePlacement>& placements) {
    for (std::size_t t = 0; t < tables.size(); ++t) {
      const std::string name = prefix + "." + tables[t].name + ".weights";
      const std::span<const float> whole = alone.at(name);
      switch (placements[t].sharding) {
        case Sharding::data_parallel:
          compare(whole, of_rank.at(tables[t].name));
          break;
        case Sharding::table_wise:
          if (placements[t].rank == rank) compare(whole, of_rank.at(name));
          break;
        case Sharding::row_wise: {
          const std::size_t block = (tables[t].rows + plan.ranks - 1) / plan.ranks;
          const std::size_t first = rank * block;
          const std::size_t rows = std::min(block, tables[t].rows - first);
          compare(whole.subspan(first * tables[t].width, rows * tables[t].width), of_rank.at(name));
          break;
        }
      }
    }
  };
  compare_tables("table", config.tables, plan.tables);
  compare_tables("weighted_table", config.weighted_tables, plan.weighted_tables);
  for (const char* const name :
       {"dense.0.weight", "over.0.weight", "over.1.weight", "over.1.bias"}) {
    compare(alone.at(name), of_rank.at(name));
  }
  if (!config.position_weights.empty()) {
    compare(alone.at("position_weights"), of_rank.at("position_weights"));
  }
  return most;
}

ShardingPlan plan_named(const std::string& name, const SparseNNConfig& config, unsigned ranks) {
  ShardingPlan plan{ranks, {}, {}};
  unsigned number = 0;
  const auto place = [&](const std::vector<TableConfig>& tables,
                         std::vector<TablePlacement>& placements) {
    for (std::size_t table = 0; table < tables.size(); ++table) {
      TablePlacement placement{Sharding::table_wise, number % ranks};
      const unsigned turn = name == "mixed" ? number % 3 : 0;
      if (name == "row-wise" || turn == 1) placement = {Sharding::row_wise, 0};
      if (name == "data-parallel" || turn == 2) placement = {Sharding::data_parallel, 0};
      placements.push_back(placement);
      ++number;
    }
  };
  place(config.tables, plan.tables);
  place(config.weighted_tables, plan.weighted_tables);
  return plan;
}

}  // namespace millrace::test
