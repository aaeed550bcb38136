#include "millrace/pipeline/model/embedding_bags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include "millrace/pipeline/kernels/enqueue.hpp"
#include "millrace/round_up.hpp"
#include "model/batch_bags.hpp"
#include "model/cuda/kernels.hpp"
#include "model/dispatch.hpp"
#include "model/draw.hpp"
#include "model/expected_rows.hpp"
#include "model/host/dense.hpp"
#include "model/host/embedding.hpp"
#include "model/host/initial.hpp"
#include "model/row_cache.hpp"
#include "model/row_runs.hpp"
#include "model/seed.hpp"
#include "model/shapes.hpp"

namespace millrace {

using namespace model;

namespace {

// In floats. Each table then begins at a multiple of 64 bytes, so that kernels may load four floats
// at once wherever a row's width allows it.
constexpr std::size_t kTableAlignment = 16;

void check(const std::vector<TableConfig>& tables) {
  std::set<std::string_view> names, features;
  for (const TableConfig& table : tables) {
    const auto refuse = [&](std::string_view why) {
      throw std::invalid_argument(fmt::format("table '{}' {}", table.name, why));
    };
    if (!names.insert(table.name).second) refuse("occurs twice");
    if (table.rows == 0) refuse("has no rows");
    if (table.width == 0) refuse("has rows of no width");
    if (table.features.empty()) refuse("has no features");
    for (const std::string& feature : table.features) {
      if (!features.insert(feature).second) {
        refuse(
            fmt::format("looks up feature '{}', which is looked up already: permute the batch "
                        "to have it twice, under two names",
                        feature));
      }
    }
  }
}

}  // namespace

EmbeddingBags::EmbeddingBags(ModelContext& context, std::vector<TableConfig> tables,
                             const EmbeddingOptions& options)
    : context_(context), configs_(std::move(tables)), options_(options) {
  check(configs_);
  if (options.observer != nullptr) add_observer(*options.observer);
  lay_out();
  initialise();
}

EmbeddingBags::~EmbeddingBags() = default;

// All tables are parts of one array, and have one count of rows. One kernel then serves all tables,
// whatever their number, and one number names a row of any table.
void EmbeddingBags::lay_out() {
  std::vector<Lookup> lookups;
  for (std::size_t t = 0; t < configs_.size(); ++t) {
    const TableConfig& table = configs_[t];
    views_.push_back({.name = table.name,
                      .rows = table.rows,
                      .width = table.width,
                      .first_row = static_cast<std::int64_t>(rows_),
                      .whole_rows = table.whole_rows == 0 ? table.rows : table.whole_rows,
                      .row_of_whole = static_cast<std::int64_t>(table.first_row)});
    for (const std::string& feature : table.features) {
      lookups.push_back({.weights = static_cast<std::int64_t>(scalars_),
                         .first_row = static_cast<std::int64_t>(rows_),
                         .rows = static_cast<std::int64_t>(table.rows),
                         .width = static_cast<std::int32_t>(table.width),
                         .column = static_cast<std::int32_t>(columns_),
                         .mean = table.pooling == Pooling::mean ? 1 : 0,
                         .table = static_cast<std::int32_t>(t)});
      features_.push_back(feature);
      widths_.push_back(table.width);
      table_of_.push_back(t);
      columns_ += table.width;
    }
    rows_ += table.rows;
    scalars_ = round_up(scalars_ + table.rows * table.width, kTableAlignment);
  }

  allocate_tables();
  Stream& main = context_.main();
  Allocator& memory = context_.allocator();
  const auto& tags = context_.tags();
  const OptimizerKind kind = options_.optimizer.kind;
  lookups_ = {memory, lookups.size() * sizeof(Lookup), main, tags.tables};
  bad_ = {memory, sizeof(BadId), main, tags.tables};
  if (!lookups.empty()) {
    context_.device().copy(lookups_.data(), lookups.data(), lookups_.size(),
                           CopyKind::host_to_device, main.handle());
  }
  for (std::size_t f = 0; f < lookups.size(); ++f) {
    TableView& view = views_[table_of_[f]];
    if (!options_.bound) view.weights = weights_ + lookups[f].weights;
    // A moment of each row is indexed by the row, a moment of each weight by the weight.
    const std::int64_t at = state_of_row(kind) != 0 ? lookups[f].first_row : lookups[f].weights;
    if (first_moment_ != nullptr) {
      view.first_moment = first_moment_ + at;
      view.first_moment_width = state_of_row(kind) != 0 ? 1 : view.width;
    }
    if (second_moment_ != nullptr) {
      view.second_moment = second_moment_ + at;
      view.second_moment_width = view.width;
    }
  }
}

void EmbeddingBags::allocate_tables() {
  const OptimizerKind kind = options_.optimizer.kind;
  const std::size_t state = state_of_parameter(kind);
  first_moment_size_ = state_of_row(kind) * rows_ + (state > 0 ? scalars_ : 0);
  second_moment_size_ = state > 1 ? scalars_ : 0;
  if (options_.cache) {
    // A cache keeps the tables in host memory of its own, and not where the caller has them.
    if (options_.bound) throw std::invalid_argument{"bound tables cannot be cached"};
    const std::size_t widest = widths_.empty() ? 0 : *std::ranges::max_element(widths_);
    cache_ = std::make_unique<RowCache>(context_, *options_.cache,
                                        CachedTables{rows_,
                                                     scalars_,
                                                     first_moment_size_,
                                                     second_moment_size_,
                                                     {widest, state_of_row(kind) != 0}});
    weights_ = cache_->weights();
    first_moment_ = cache_->first_moment();
    second_moment_ = cache_->second_moment();
    return;
  }
  Stream& main = context_.main();
  Allocator& memory = context_.allocator();
  const auto& tags = context_.tags();
  own_weights_ = {memory, options_.bound ? 0 : scalars_, main, tags.tables};
  own_first_moment_ = {memory, first_moment_size_, main, tags.optimizer_state};
  own_second_moment_ = {memory, second_moment_size_, main, tags.optimizer_state};
  weights_ = own_weights_.data();
  first_moment_ = own_first_moment_.data();
  second_moment_ = own_second_moment_.data();
}

void EmbeddingBags::initialise() {
  const StreamRef main = context_.main();
  const auto cost = [this](const char* name, std::size_t size) {
    const double bytes = kScalar * static_cast<double>(size);
    return cached() ? Declared{.name = name, .host_written = bytes}
                    : Declared{.name = name, .bytes = bytes};
  };
  for (std::size_t t = 0; t < views_.size() && !options_.bound; ++t) {
    const TableView& table = views_[t];
    const std::size_t size = table.rows * table.width;
    const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(table.whole_rows)));
    // By the row's place in the whole table: each way of sharding begins with the same weights.
    const std::uint64_t draws =
        draws_from(stream_of_draws(options_.seed, table.name), configs_[t].first_row * table.width);
    enqueue<host::fill_uniform<float>, cuda::fill_uniform>(
        context_, main, cost("initialize table", size), writes(table.weights, size), draws, bound);
  }
  for (const auto& [state, size] : {std::pair{first_moment_, first_moment_size_},
                                    std::pair{second_moment_, second_moment_size_}}) {
    if (size == 0) continue;
    if (cached()) {
      enqueue<host::fill<float>, cuda::fill>(context_, main, cost("initialize table", size),
                                             writes(state, size), 0.0F);
    } else {
      context_.device().fill(state, 0, size * sizeof(float), main.handle());
    }
  }
  // All ones is "no bad id": it is greater than any place, and kernels keep the smallest place.
  context_.device().fill(bad_.data(), 0xFF, bad_.size(), main.handle());
}

BatchBags EmbeddingBags::bags_of(const KeyedJaggedTensor& batch, const float* factors) const {
  const auto& keys = batch.layout().keys;
  if (keys == nullptr ? !features_.empty() : *keys != features_) {
    throw std::invalid_argument(
        fmt::format("the batch has the features [{}], the tables are looked up by [{}]",
                    keys == nullptr ? "" : fmt::format("{}", fmt::join(*keys, ", ")),
                    fmt::join(features_, ", ")));
  }
  // Kernels count ids in 32 bits: half the traffic of the indexes that an update sorts and reads.
  if (batch.value_count() >= std::numeric_limits<std::int32_t>::max() ||
      features_.size() * batch.batch_size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument(fmt::format(
        "a batch of {} values is too large: 2^31 - 2 is the most", batch.value_count()));
  }
  if (factors == nullptr && batch.weighted()) {
    factors = static_cast<const float*>(batch.weights().data());
  }
  return {batch, reads(static_cast<const Lookup*>(lookups_.data()), features_.size()), factors};
}

TableWeights<float> EmbeddingBags::weights_at(const Array<std::int32_t>& slots) const {
  TableWeights<float> weights{.home = reads(static_cast<const float*>(weights_), scalars_),
                              .slots = reads(slots)};
  if (cached()) {
    weights.cached = reads(cache_->cached().weights);
    weights.slot_width = cache_->slot_width();
  }
  return weights;
}

UpdatedTables<float> EmbeddingBags::rows_at(const Array<std::int32_t>& slots) const {
  UpdatedTables<float> tables{
      .home = {updates(weights_, scalars_), updates(first_moment_, first_moment_size_),
               updates(second_moment_, second_moment_size_)},
      .slots = reads(slots),
      .layout = {.moment_of_row = state_of_row(options_.optimizer.kind) != 0}};
  if (cached()) {
    tables.cached = cache_->cached();
    tables.states = cache_->states();
    tables.layout.width = cache_->slot_width();
  }
  return tables;
}

/*
 * Where the cost figures come from. They are what a virtual device needs to time a kernel, and
 * follow from sizes that the host knows. It does not know the ids. So
 *   - a lookup reads one row for each id, also where ids repeat: `row_bytes`;
 *   - an update reads a gradient for each id, and reads and writes the row and its optimizer state:
 *     1 + 2 + 2 x state, in units of `row_bytes`. The indexes of an id take 12 bytes more;
 *   - with a cache, rows that are expected to have no slot (ExpectedRows) are read and written over
 *     the link in place of device memory.
 */
double EmbeddingBags::row_bytes(const KeyedJaggedTensor& batch) const {
  double scalars = 0;
  for (std::size_t f = 0; f < features_.size(); ++f) {
    scalars += static_cast<double>(batch.value_count(f) * widths_[f]);
  }
  return scalars * kScalar;
}

ExpectedRows EmbeddingBags::expected(const KeyedJaggedTensor& batch) const {
  const OptimizerKind kind = options_.optimizer.kind;
  std::vector<TableLookups> tables;
  for (const TableView& view : views_) {
    const auto width = static_cast<double>(view.width);
    const double state = width * static_cast<double>(state_of_parameter(kind)) +
                         static_cast<double>(state_of_row(kind));
    tables.push_back(
        {.rows = static_cast<double>(view.rows), .row_bytes = kScalar * (width + state)});
  }
  for (std::size_t f = 0; f < features_.size(); ++f) {
    tables[table_of_[f]].lookups += static_cast<double>(batch.value_count(f));
  }
  return {tables, static_cast<double>(cache_slots())};
}

HeldRows EmbeddingBags::prefetch(const KeyedJaggedTensor& batch, StreamRef stream) {
  if (!cached()) return {};
  const BatchBags bags = bags_of(batch, nullptr);
  if (features_.empty() || batch.batch_size() == 0) return {};
  // A prefetch evicts rows: an observer that still reads them has to be waited for first.
  rows_will_move(stream);
  return cache_->prefetch(bags, expected(batch), stream);
}

void EmbeddingBags::look_up(const KeyedJaggedTensor& batch, const float* factors,
                            const PooledMatrix& pooled, StreamRef stream) {
  const BatchBags bags = bags_of(batch, factors);
  if (features_.empty() || batch.batch_size() == 0) return;
  looked_up_on_ = stream;
  const double rows = row_bytes(batch);
  const double out = kScalar * static_cast<double>(batch.batch_size() * columns_);
  const auto& layout = batch.layout();
  const Array<std::int32_t> slots = cached() ? cache_->locate(bags, stream) : Array<std::int32_t>{};
  const double from_host = cached() ? rows * expected(batch).unplaced_share() : 0;
  const Declared declared{
      .name = "look up",
      .flops = rows / kScalar,
      .bytes = rows - from_host + out +
               static_cast<double>(layout.value_bytes() + layout.offset_bytes()) +
               static_cast<double>(slots.size() * sizeof(std::int32_t)),
      .host_read = from_host};
  with_types(layout.value_type, layout.length_type, [&]<typename Id, typename Offset>(Id, Offset) {
    enqueue<host::look_up<float, Id, Offset>, cuda::look_up<Id, Offset>>(
        context_, stream, declared,
        LookUpArguments<float, Id, Offset>{.pooled = bags.write(pooled),
                                           .bad = updates(static_cast<BadId*>(bad_.data()), 1),
                                           .tables = weights_at(slots),
                                           .bags = bags.layout<Offset>(),
                                           .ids = bags.ids<Id>(),
                                           .factors = bags.weights()});
  });
}

void EmbeddingBags::factor_gradients(const KeyedJaggedTensor& batch, const PooledMatrix& gradient,
                                     float* out, StreamRef stream) {
  const BatchBags bags = bags_of(batch, nullptr);
  if (bags.ids_count() == 0) return;
  const double rows = row_bytes(batch);
  const auto& layout = batch.layout();
  const Array<std::int32_t> slots = cached() ? cache_->locate(bags, stream) : Array<std::int32_t>{};
  const double from_host = cached() ? rows * expected(batch).unplaced_share() : 0;
  with_types(layout.value_type, layout.length_type, [&]<typename Id, typename Offset>(Id, Offset) {
    enqueue<host::factor_gradients<float, Id, Offset>, cuda::factor_gradients<Id, Offset>>(
        context_, stream,
        {.name = "factor gradients",
         .flops = rows / 2,
         .bytes = 2 * rows - from_host,
         .host_read = from_host},
        FactorGradientsArguments<float, Id, Offset>{.gradients = writes(out, bags.ids_count()),
                                                    .pooled_gradient = bags.read(gradient),
                                                    .tables = weights_at(slots),
                                                    .bags = bags.layout<Offset>(),
                                                    .ids = bags.ids<Id>()});
  });
}

// Sorted by row first: a row that a batch has several times is updated once, by the sum of its
// gradients in the order of the batch. So the result does not depend on which thread comes first.
template <typename Id, typename Offset, typename Key>
void EmbeddingBags::update_rows(const BatchBags& bags, const PooledMatrix& gradient,
                                StreamRef stream) {
  const std::size_t count = bags.ids_count();
  const double ids = static_cast<double>(count);
  const Array<std::uint32_t> bag_of = context_.scratch<std::uint32_t>(count, stream);
  RowRuns<Key> runs = find_row_runs<Key>(
      context_, count, static_cast<Key>(rows_), stream, [&](auto rows, auto positions) {
        enqueue<host::linearise<Key, Id, Offset>, cuda::linearise<Key, Id, Offset>>(
            context_, stream, {.name = "linearize", .bytes = ids * (sizeof(Id) + sizeof(Key) + 8)},
            LineariseArguments<Key, Id, Offset>{.rows = rows,
                                                .positions = positions,
                                                .bag_of = writes(bag_of),
                                                .bags = bags.layout<Offset>(),
                                                .ids = bags.ids<Id>(),
                                                .none = static_cast<Key>(rows_)});
      });

  Array<std::int32_t> slots =
      locate(runs.unique.data(), runs.unique.size(), runs.count.data(), stream);
  const double moved = row_bytes(bags.batch);
  double at_home = 0;
  if (cached()) {
    const ExpectedRows rows = expected(bags.batch);
    at_home = rows.unique_bytes() * rows.unplaced_share();
  }
  // Before the kernel is enqueued: an observer that still reads rows on another stream makes
  // `stream` wait for that here. After the launch it would be too late.
  rows_will_move(stream);
  const double state = 2 + 2 * static_cast<double>(state_of_parameter(options_.optimizer.kind));
  enqueue<host::update_rows<float, Key, Offset>, cuda::update_rows<Key, Offset>>(
      context_, stream,
      {.name = "update tables",
       .flops = moved,
       .bytes = moved * (1 + state) + ids * 12 - 2 * at_home,
       .host_read = at_home,
       .host_written = at_home},
      UpdateRowsArguments<float, Key, Offset>{.tables = rows_at(slots),
                                              .gradient = bags.read(gradient),
                                              .bags = bags.layout<Offset>(),
                                              .factors = bags.weights(),
                                              .sorted = {.rows = reads(runs.unique),
                                                         .starts = reads(runs.starts),
                                                         .count = reads(runs.count),
                                                         .positions = reads(runs.positions),
                                                         .bag_of = reads(bag_of)},
                                              .rule = rule_of<float>(options_.optimizer, steps_)});
  // Without an observer, the runs are freed at the end of this function, in the stream's order. An
  // observer gets the buffers too: it can record its own use of them.
  if (observers_.empty()) return;
  const ExpectedRows rows = expected(bags.batch);
  const RowUpdate update{.rows = runs.unique.data(),
                         .row_type = row_type(),
                         .count = runs.count.data(),
                         .most = std::min(count, rows_),
                         .step = steps_,
                         .stream = stream,
                         .tables = views_,
                         .slots = slots.data(),
                         .cache = slot_view(),
                         .expected = rows.of_tables(),
                         .at_home = cached() ? rows.unplaced_share() : 0,
                         .memory = {&runs.unique.buffer(), &runs.count.buffer(), &slots.buffer()}};
  for (RowUpdateObserver* observer : observers_) observer->rows_updated(update);
}

void EmbeddingBags::rows_will_move(StreamRef stream) {
  for (RowUpdateObserver* observer : observers_) observer->rows_will_move(stream);
}

void EmbeddingBags::update(const KeyedJaggedTensor& batch, const float* factors,
                           const PooledMatrix& gradient, StreamRef stream) {
  const BatchBags bags = bags_of(batch, factors);
  if (options_.optimizer.kind == OptimizerKind::none) return;
  // Before the rule and the observers read it: steps count from 1, as Adam's bias correction needs,
  // and an observer's rows carry the step that made them. Also without ids, so that all ranks count
  // alike and observers see every step.
  ++steps_;
  if (bags.ids_count() == 0) {
    const RowUpdate nothing{
        .row_type = row_type(), .step = steps_, .stream = stream, .tables = views_};
    for (RowUpdateObserver* observer : observers_) observer->rows_updated(nothing);
    return;
  }
  const auto& layout = batch.layout();
  with_types(layout.value_type, layout.length_type, [&]<typename Id, typename Offset>(Id, Offset) {
    // The sort moves half as many bytes with 32-bit keys, which most models need no more than.
    if (row_type() == IndexType::int32) {
      update_rows<Id, Offset, std::uint32_t>(bags, gradient, stream);
    } else {
      update_rows<Id, Offset, std::uint64_t>(bags, gradient, stream);
    }
  });
}

void EmbeddingBags::add_state(ModelState& state, const std::string& prefix) {
  const bool by_row = state_of_row(options_.optimizer.kind) != 0;
  rows_will_move(context_.main());
  if (cached()) {
    cache_->empty(reads(static_cast<const Lookup*>(lookups_.data()), features_.size()),
                  context_.main());
  }
  for (const TableView& table : views_) {
    const std::string name = fmt::format("{}.{}", prefix, table.name);
    const std::size_t size = table.rows * table.width;
    const auto add = [&](const char* what, float* data, std::size_t of_table) {
      if (data == nullptr) return;
      state.tensors.push_back(
          {.name = name + what, .data = data, .size = of_table, .in_host_memory = cached()});
    };
    add(".weights", table.weights, size);
    add(".m", table.first_moment, by_row ? table.rows : size);
    add(".v", table.second_moment, size);
  }
  state.counters.push_back({prefix + ".steps", &steps_});
}

void EmbeddingBags::bind(float* weights) {
  weights_ = weights;
  std::size_t at = 0;
  for (TableView& table : views_) {
    table.weights = weights + at;
    at = round_up(at + table.rows * table.width, kTableAlignment);
  }
}

std::optional<InvalidId> EmbeddingBags::invalid_id(StreamRef stream) {
  BadId bad;
  Device& device = context_.device();
  if (looked_up_on_ && looked_up_on_->id() != stream.id()) {
    OrderedDevice& ordered = context_.allocator().device();
    Event looked_up;
    ordered.record(looked_up, *looked_up_on_);
    ordered.wait(stream, looked_up);
  }
  device.copy(&bad, bad_.data(), sizeof(BadId), CopyKind::device_to_host, stream.handle());
  device.synchronize(stream.handle());
  if (context_.cost_only() || bad.lookup == BadId::kNone) return std::nullopt;
  device.fill(bad_.data(), 0xFF, bad_.size(), stream.handle());
  device.synchronize(stream.handle());  // lookups go on wherever they are
  const TableConfig& table = configs_[table_of_[bad.lookup]];
  return InvalidId{table.name, features_[bad.lookup], bad.value, table.rows};
}

CacheCounts EmbeddingBags::cache_counts(StreamRef stream) {
  return cached() ? cache_->counts(stream) : CacheCounts{};
}

std::vector<std::int64_t> EmbeddingBags::cached_rows(StreamRef stream) {
  return cached() ? cache_->rows(stream) : std::vector<std::int64_t>{};
}

IndexType EmbeddingBags::row_type() const noexcept {
  return rows_ <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())
             ? IndexType::int32
             : IndexType::int64;
}

SlotView EmbeddingBags::slot_view() const noexcept {
  return cached() ? cache_->view() : SlotView{};
}

Array<std::int32_t> EmbeddingBags::locate(const void* rows, std::size_t most,
                                          const std::uint32_t* count, StreamRef stream) {
  if (!cached() || most == 0) return {};
  if (row_type() == IndexType::int32) {
    return cache_->locate(static_cast<const std::uint32_t*>(rows), most, count, stream);
  }
  return cache_->locate(static_cast<const std::uint64_t*>(rows), most, count, stream);
}

std::size_t EmbeddingBags::cache_slots() const noexcept {
  return cached() ? cache_->slot_count() : 0;
}

}  // namespace millrace
