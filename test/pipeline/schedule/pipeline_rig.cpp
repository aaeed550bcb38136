#include "test/pipeline/schedule/pipeline_rig.hpp"

#include <fmt/format.h>

#include <numeric>
#include <random>

#include "millrace/pipeline/data/jagged_operations.hpp"
#include "test/support/schedules.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kMemory = std::size_t{1} << 28;

/**
 * Missing waits of the host show when the host runs far ahead, missing waits of main when it does
 * not.
 */
unsigned run_ahead(std::uint64_t schedule) {
  return schedule != 0 && schedule % 2 == 0 ? 20 : 1000;
}

std::size_t examples(std::size_t number) {
  return number % 7 == 3 ? 0 : 1 + number * 5 % 12 + (number == 9 ? 20 : 0);
}

}  // namespace

ExpectedPipeline expected_of(PipelineKind kind) {
  switch (kind) {
    case PipelineKind::base:
      return {};
    case PipelineKind::sparse_dist_lite:
      return {.at_peak = 2};
    case PipelineKind::sparse_dist:
      return {.at_rest = 2, .at_peak = 3, .exchange_on = "data-dist"};
    case PipelineKind::prefetch_sparse_dist:
      return {.at_rest = 2, .at_peak = 3, .exchange_on = "data-dist"};
    case PipelineKind::semi_sync:
      return {.at_rest = 3, .at_peak = 3, .exchange_on = "data-dist"};
    case PipelineKind::fused_sparse_dist:
      return {.at_rest = 2, .at_peak = 3, .exchange_on = "data-dist", .update_on = "data-dist"};
  }
  return {};
}

std::string PipelineCase::name() const {
  std::string name = fmt::format("{}, {}, {} waits, {}, schedule {}", to_string(kind),
                                 to_string(copy), to_string(waits), policy, schedule);
  if (kind == PipelineKind::fused_sparse_dist) {
    name += fmt::format(", lookup {} on {}{}", to_string(lookup.position), to_string(lookup.stream),
                        lookup.order_after_dense ? ", ordered" : "");
  }
  if (kind == PipelineKind::semi_sync) {
    name += fmt::format(", stale from {} on{}", stale.start_batch,
                        stale.stash_gradients ? ", gradients too" : "");
  }
  if (cache) {
    name += fmt::format(", {} of rows cached, {}", cache->load_factor, to_string(cache->policy));
  }
  if (savers.batch) name += ", batch freed early";
  if (savers.exchanged_inputs) name += ", exchanged inputs cleared";
  if (savers.features) name += ", features freed early";
  if (copies_ahead > 0) name += fmt::format(", {} copies ahead", copies_ahead);
  if (!left_out.empty()) name += ", without: " + left_out;
  return name;
}

namespace {

/** In 20 cells, each pair of values of any two options occurs. */
void vary_lookup(PipelineCase& what, std::size_t copy, std::size_t rest) {
  what.lookup.position = kLookupPositions[(rest + copy) % kLookupPositions.size()];
  what.lookup.stream = kLookupStreams[(rest + 2 * copy) % kLookupStreams.size()];
  if (what.model == RigModel::tiny) return;
  const bool ordered = what.lookup.position != LookupPosition::before_optimizer;
  what.lookup.order_after_dense = ordered;
  what.model = ordered ? RigModel::sparse_nn : RigModel::sparse_nn_plain;
}

}  // namespace

std::vector<PipelineCase> cases_of(PipelineKind kind, RigModel model) {
  std::vector<PipelineCase> cases;
  for (std::size_t copy = 0; copy < kCopyMethods.size(); ++copy) {
    for (std::size_t rest = 0; rest < 4; ++rest) {
      PipelineCase& what = cases.emplace_back(
          PipelineCase{kind, kCopyMethods[copy], rest < 2 ? Waits::coarse : Waits::precise,
                       rest % 2 == 0 ? "millrace" : "torch", 0, model});
      if (kind == PipelineKind::fused_sparse_dist) vary_lookup(what, copy, rest);
    }
  }
  return cases;
}

std::vector<PipelineCase> all_cases(RigModel model) {
  std::vector<PipelineCase> cases;
  for (const PipelineKind kind : kPipelineKinds) {
    const std::vector<PipelineCase> of_kind = cases_of(kind, model);
    cases.insert(cases.end(), of_kind.begin(), of_kind.end());
  }
  return cases;
}

PipelineRig::PipelineRig(const PipelineCase& what)
    : what_(what),
      machine(schedule_of(what.schedule, kMemory)),
      device(machine.add_device(
          {.memory_bytes = kMemory, .launch_queue_depth = run_ahead(what.schedule)})),
      caching(ordered, source, what.policy == "torch" ? Policy::torch() : Policy::millrace()),
      caching_pinned(ordered, pinned_source, Policy::pinned()),
      batches(traits_of(what.copy).uses_driver_pool ? static_cast<Allocator&>(pool) : memory,
              "batch"),
      streams(ordered, what.kind),
      model(make_model()),
      exchange(make_exchange()),
      blocks_of_model_(caching.statistics().live_blocks) {
  program_device.leave_out(what.left_out);
  for (TamperedAllocator* const part : {&batches, &features, &host_batches}) {
    part->leave_out(what.left_out);
  }
}

PipelineRig::~PipelineRig() = default;

std::unique_ptr<TrainModel> PipelineRig::make_model() {
  if (what_.model == RigModel::tiny) return std::make_unique<TinyModel>(memory, streams.main);
  constexpr std::size_t width = 4;
  const std::size_t rows = this->rows();
  SparseNNConfig config;
  config.dense_features = TinyModel::kDense;
  config.tables = {{"of b", rows, width, Pooling::sum, {"b"}},
                   {"of a", rows, width, Pooling::mean, {"a"}}};
  config.weighted_tables = {{"of w", rows, width, Pooling::sum, {"w"}}};
  config.table_cache = what_.cache;
  if (what_.model != RigModel::sparse_nn_plain) config.position_weights = {{"a", 2}};
  config.dense_arch = {width};
  config.over_arch = {5};
  return std::make_unique<SparseNN>(context, config);
}

std::size_t PipelineRig::rows() const {
  return what_.model == RigModel::sparse_nn_long ? 200 : TinyModel::kRows;
}

LocalExchange PipelineRig::make_exchange() {
  if (what_.model == RigModel::tiny) {
    return {features, TinyModel::features(), TinyModel::weighted_features()};
  }
  auto& network = static_cast<SparseNN&>(*model);
  return {features, network.bags().features(), network.weighted_bags().features()};
}

std::vector<float> PipelineRig::parameters() {
  if (what_.model == RigModel::tiny) return static_cast<TinyModel&>(*model).parameters();
  std::vector<float> all;
  for (const StateTensor& tensor : static_cast<SparseNN&>(*model).state().tensors) {
    all.resize(all.size() + tensor.size);
    device.copy(all.data() + all.size() - tensor.size, tensor.data, tensor.size * sizeof(float),
                tensor.download(), streams.main.handle());
  }
  streams.main.synchronize();
  return all;
}

std::unique_ptr<TrainPipeline> PipelineRig::make(const PipelineCase& what, TrainModel& trained,
                                                 bool execute_all_batches) {
  const bool same = traits_of(what.copy).uses_driver_pool == traits_of(what_.copy).uses_driver_pool;
  Allocator& other =
      traits_of(what_.copy).uses_driver_pool ? static_cast<Allocator&>(memory) : pool;
  return TrainPipeline::make(what.kind,
                             {.streams = streams,
                              .batches = same ? static_cast<Allocator&>(batches) : other,
                              .model = trained,
                              .exchange = exchange},
                             what.options(execute_all_batches));
}

ModelInput PipelineRig::load(std::size_t number) {
  std::mt19937 random{static_cast<unsigned>(number)};
  InputShape shape{.batch_size = examples(number), .dense_features = TinyModel::kDense};
  shape.sparse = {.keys = make_keys({"a", "b"}), .batch_size = shape.batch_size, .counts = {0, 0}};
  shape.weighted = {
      .keys = make_keys({"w"}), .batch_size = shape.batch_size, .counts = {0}, .weighted = true};
  std::vector<std::int32_t> lengths(3 * shape.batch_size);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = static_cast<std::int32_t>(random() % 4);
    const std::size_t key = i / shape.batch_size;
    (key < 2 ? shape.sparse.counts[key] : shape.weighted.counts[0]) +=
        static_cast<std::size_t>(lengths[i]);
  }

  ModelInput batch{host_batches, streams.copy, shape};
  for (const HostTensor& tensor : batch.tensors()) {
    checking.host_writes(tensor.data, tensor.bytes, "load");
  }
  const auto fill = [&](const KeyedJaggedTensor& features, std::size_t first_bag) {
    std::int32_t sum = 0;
    const auto to = features.lengths().as<std::int32_t>();
    const auto offsets = features.offsets().as<std::int32_t>();
    offsets[0] = 0;
    for (std::size_t bag = 0; bag < to.size(); ++bag) {
      to[bag] = lengths[first_bag + bag];
      offsets[bag + 1] = sum += to[bag];
    }
    for (std::int64_t& id : features.values().as<std::int64_t>()) {
      id = static_cast<std::int64_t>(random() % rows());
    }
    for (float& weight : features.weights().as<float>()) {
      weight = static_cast<float>(random() % 8) / 8;
    }
  };
  fill(batch.contents().sparse, 0);
  fill(batch.contents().weighted, 2 * shape.batch_size);
  for (float& value : batch.contents().dense.as<float>()) {
    value = static_cast<float>(random() % 64) / 32 - 1;
  }
  for (float& label : batch.contents().labels.as<float>()) {
    label = static_cast<float>(random() % 2);
  }
  return batch;
}

PipelineRig::OnDevice PipelineRig::upload(std::size_t number) {
  const ModelInput host = load(number);
  const InputTensors& from = host.contents();
  const JaggedScope scope{.memory = memory, .stream = streams.main};
  const auto to = [&](const BatchTensor& tensor) {
    BatchTensor copy{memory, tensor.bytes(), streams.main};
    if (!tensor.empty()) {
      device.copy(copy.data(), tensor.data(), tensor.bytes(), CopyKind::host_to_device,
                  streams.main.handle());
    }
    return copy;
  };
  const InputTensors input{.batch_size = from.batch_size,
                           .dense_features = from.dense_features,
                           .dense = to(from.dense),
                           .labels = to(from.labels),
                           .sparse = to_device(scope, from.sparse),
                           .weighted = to_device(scope, from.weighted)};
  const auto features = exchange.start(input, streams.main);
  features->receive(Waits::coarse);
  OnDevice batch{input, features->arrange()};
  streams.main.synchronize();  // then the host's batch can be destroyed
  return batch;
}

void PipelineRig::plain_step(std::size_t number) {
  const OnDevice batch = upload(number);
  train_plainly(*model, streams.main, batch.input, batch.features);
  streams.main.synchronize();
}

std::vector<std::string> PipelineRig::races() const {
  std::vector<std::string> messages;
  for (const RaceChecker::Race& race : checking.races()) messages.push_back(race.message);
  return messages;
}

std::set<std::string> PipelineRig::edges() const {
  std::set<std::string> edges;
  for (const auto& [edge, times] : program_device.edges()) edges.insert(edge);
  for (const TamperedAllocator* const part : {&batches, &features, &host_batches}) {
    for (const auto& [edge, times] : part->reports()) edges.insert(edge);
  }
  return edges;
}

std::size_t PipelineRig::live_blocks() {
  const std::size_t of_model = model ? blocks_of_model_ : 0;
  return caching.statistics().live_blocks + pool.statistics().live_blocks - of_model;
}

std::vector<std::size_t> RigSource::numbers(std::size_t begin, std::size_t end) {
  std::vector<std::size_t> numbers(end - begin);
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

std::vector<float> plainly_trained(const std::vector<std::size_t>& numbers, RigModel model) {
  PipelineRig rig{{.model = model}};
  for (const std::size_t number : numbers) rig.plain_step(number);
  return rig.parameters();
}

std::vector<float> plainly_trained(std::size_t batches, RigModel model) {
  return plainly_trained(RigSource::numbers(0, batches), model);
}

std::vector<float> stalely_trained(std::size_t batches, const StaleOptions& options, RigModel of) {
  PipelineRig rig{{.model = of}};
  TrainModel& model = *rig.model;
  Stream& main = rig.streams.main;
  Buffer stash;
  PipelineRig::OnDevice batch = rig.upload(0), next;
  std::unique_ptr<TableLookup> lookup = model.look_up(batch.features, main), next_lookup;
  for (std::size_t i = 0; i < batches; ++i) {
    const bool stale = i >= options.start_batch;
    const auto look_up_next = [&] {
      if (i + 1 == batches) return;
      next = rig.upload(i + 1);
      next_lookup = model.look_up(next.features, main);
    };
    model.zero_gradients();
    model.forward(batch.input, *lookup);
    if (stale) look_up_next();
    model.backward(*lookup);
    model.update_tables(*lookup, main);
    const bool first_stashed = stale && options.stash_gradients && !stash;
    if (stale && options.stash_gradients) model.swap_gradients(stash);
    if (!first_stashed) model.optimizer_step();
    if (!stale) look_up_next();
    main.synchronize();
    batch = std::exchange(next, {});
    lookup = std::move(next_lookup);
  }
  lookup.reset();
  stash.reset();
  return rig.parameters();
}

}  // namespace millrace::test
