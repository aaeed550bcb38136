#include "millrace/pipeline/model/embedding_bags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include "model/cuda/current_device.hpp"
#include "model/cuda/kernels.hpp"
#include "model/dispatch.hpp"
#include "model/draw.hpp"
#include "model/enqueue.hpp"
#include "model/host/embedding.hpp"
#include "model/host/initial.hpp"
#include "model/host/radix_sort.hpp"
#include "model/seed.hpp"

namespace millrace {

using namespace model;

namespace {

constexpr std::size_t kTableAlignment = 16;  // floats
constexpr auto kScalar = static_cast<double>(sizeof(float));

std::size_t rounded_up(std::size_t size, std::size_t to) { return (size + to - 1) / to * to; }

void check(const std::vector<TableConfig>& tables) {
  std::set<std::string_view> names, features;
  for (const TableConfig& table : tables) {
    const auto refuse = [&](std::string_view why) {
      throw std::invalid_argument(fmt::format("table '{}' {}", table.name, why));
    };
    if (!names.insert(table.name).second) refuse("is there twice");
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

template <typename Key>
Key none_of(std::size_t rows) {
  return static_cast<Key>(rows);
}

}  // namespace

/** A batch, as kernels see it. */
struct EmbeddingBags::Bags {
  const KeyedJaggedTensor& batch;
  std::size_t features = 0;
  const float* factors = nullptr;

  [[nodiscard]] std::size_t ids_count() const { return batch.value_count(); }
  template <typename Id>
  [[nodiscard]] auto ids() const {
    return reads(static_cast<const Id*>(batch.values().data()), ids_count());
  }
  template <typename Offset>
  [[nodiscard]] auto offsets() const {
    return reads(static_cast<const Offset*>(batch.offsets().data()),
                 features * batch.batch_size() + 1);
  }
  [[nodiscard]] auto weights() const { return reads(factors, ids_count()); }
  [[nodiscard]] PooledShape shape(const PooledMatrix& pooled) const {
    return {batch.batch_size(), pooled.stride, pooled.column};
  }
  /** @brief The elements of the matrix from its start to the end of this part. */
  [[nodiscard]] std::size_t extent(const PooledMatrix& pooled) const {
    return batch.batch_size() * pooled.stride;
  }
};

EmbeddingBags::EmbeddingBags(ModelContext& context, std::vector<TableConfig> tables,
                             const EmbeddingOptions& options)
    : context_(context), configs_(std::move(tables)), options_(options) {
  check(configs_);
  lay_out();
  initialise();
}

void EmbeddingBags::lay_out() {
  std::vector<Lookup> lookups;
  for (std::size_t t = 0; t < configs_.size(); ++t) {
    const TableConfig& table = configs_[t];
    views_.push_back(
        {table.name, table.rows, table.width, static_cast<std::int64_t>(rows_), nullptr});
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
    scalars_ = rounded_up(scalars_ + table.rows * table.width, kTableAlignment);
  }

  Stream& main = context_.main();
  Allocator& memory = context_.allocator();
  const auto& tags = context_.tags();
  const OptimizerKind kind = options_.optimizer.kind;
  const std::size_t state = state_of_parameter(kind);
  own_weights_ = {memory, options_.bound ? 0 : scalars_, main, tags.tables};
  weights_ = own_weights_.data();
  m_ = {memory, state_of_row(kind) * rows_ + (state > 0 ? scalars_ : 0), main,
        tags.optimizer_state};
  v_ = {memory, state > 1 ? scalars_ : 0, main, tags.optimizer_state};
  lookups_ = {memory, lookups.size() * sizeof(Lookup), main, tags.tables};
  bad_ = {memory, sizeof(BadId), main, tags.tables};
  if (!lookups.empty()) {
    context_.device().copy(lookups_.data(), lookups.data(), lookups_.size(),
                           CopyKind::host_to_device, main.handle());
  }
  for (std::size_t f = 0; f < lookups.size(); ++f) {
    TableView& view = views_[table_of_[f]];
    if (!options_.bound) view.weights = weights_ + lookups[f].weights;
    const std::int64_t at = state_of_row(kind) != 0 ? lookups[f].first_row : lookups[f].weights;
    view.m = m_.size() == 0 ? nullptr : m_.data() + at;
    view.v = v_.size() == 0 ? nullptr : v_.data() + at;
  }
}

void EmbeddingBags::initialise() {
  const StreamRef main = context_.main();
  for (std::size_t t = 0; t < views_.size() && !options_.bound; ++t) {
    const TableView& table = views_[t];
    const std::size_t size = table.rows * table.width;
    const std::size_t whole = configs_[t].whole_rows == 0 ? table.rows : configs_[t].whole_rows;
    const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(whole)));
    const std::uint64_t draws =
        draws_from(stream_of_draws(options_.seed, table.name), configs_[t].first_row * table.width);
    enqueue<host::fill_uniform<float>, cuda::fill_uniform>(
        context_, main, {.name = "initialise table", .bytes = kScalar * static_cast<double>(size)},
        writes(table.weights, size), draws, bound);
  }
  for (const Array<float>* state : {&m_, &v_}) {
    if (state->size() == 0) continue;
    context_.device().fill(state->data(), 0, state->size() * sizeof(float), main.handle());
  }
  context_.device().fill(bad_.data(), 0xFF, bad_.size(), main.handle());
}

EmbeddingBags::Bags EmbeddingBags::bags_of(const KeyedJaggedTensor& batch,
                                           const float* factors) const {
  const auto& keys = batch.layout().keys;
  if (keys == nullptr ? !features_.empty() : *keys != features_) {
    throw std::invalid_argument(
        fmt::format("the batch has the features [{}], the tables are looked up by [{}]",
                    keys == nullptr ? "" : fmt::format("{}", fmt::join(*keys, ", ")),
                    fmt::join(features_, ", ")));
  }
  if (batch.value_count() >= std::numeric_limits<std::int32_t>::max() ||
      features_.size() * batch.batch_size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument(fmt::format(
        "a batch of {} values is too large: 2^31 - 2 is the most", batch.value_count()));
  }
  if (factors == nullptr && batch.weighted()) {
    factors = static_cast<const float*>(batch.weights().data());
  }
  return {batch, features_.size(), factors};
}

double EmbeddingBags::row_bytes(const KeyedJaggedTensor& batch) const {
  double scalars = 0;
  for (std::size_t f = 0; f < features_.size(); ++f) {
    scalars += static_cast<double>(batch.value_count(f) * widths_[f]);
  }
  return scalars * kScalar;
}

void EmbeddingBags::forward(const KeyedJaggedTensor& batch, const float* factors,
                            const PooledMatrix& pooled, StreamRef stream) {
  const Bags bags = bags_of(batch, factors);
  if (features_.empty() || batch.batch_size() == 0) return;
  looked_up_on_ = stream;
  const double rows = row_bytes(batch);
  const double out = kScalar * static_cast<double>(batch.batch_size() * columns_);
  const auto& layout = batch.layout();
  with_types(layout.value_type, layout.length_type, [&]<typename Id, typename Offset>(Id, Offset) {
    write_part(pooled, batch.batch_size(), [&](auto all_columns) {
      enqueue<host::look_up<float, Id, Offset>, cuda::look_up<Id, Offset>>(
          context_, stream,
          {.name = "look up",
           .flops = rows / kScalar,
           .bytes = rows + out + static_cast<double>(layout.value_bytes() + layout.offset_bytes())},
          all_columns, updates(static_cast<BadId*>(bad_.data()), 1),
          reads(static_cast<const float*>(weights_), scalars_),
          reads(static_cast<const Lookup*>(lookups_.data()), features_.size()), bags.ids<Id>(),
          bags.offsets<Offset>(), bags.weights(), bags.shape(pooled));
    });
  });
}

void EmbeddingBags::factor_gradients(const KeyedJaggedTensor& batch, const PooledMatrix& gradient,
                                     float* out, StreamRef stream) {
  const Bags bags = bags_of(batch, nullptr);
  if (bags.ids_count() == 0) return;
  const double rows = row_bytes(batch);
  const auto& layout = batch.layout();
  with_types(layout.value_type, layout.length_type, [&]<typename Id, typename Offset>(Id, Offset) {
    enqueue<host::factor_gradients<float, Id, Offset>, cuda::factor_gradients<Id, Offset>>(
        context_, stream, {.name = "factor gradients", .flops = rows / 2, .bytes = 2 * rows},
        writes(out, bags.ids_count()), reads(gradient.data, bags.extent(gradient)),
        reads(static_cast<const float*>(weights_), scalars_),
        reads(static_cast<const Lookup*>(lookups_.data()), features_.size()), bags.ids<Id>(),
        bags.offsets<Offset>(), bags.shape(gradient));
  });
}

template <typename Id, typename Offset, typename Key>
void EmbeddingBags::update(const Bags& bags, const PooledMatrix& gradient, StreamRef stream) {
  const std::size_t count = bags.ids_count();
  const double ids = static_cast<double>(count);
  const auto none = none_of<Key>(rows_);
  const auto bits = static_cast<unsigned>(std::bit_width(rows_));
  const auto lookups = reads(static_cast<const Lookup*>(lookups_.data()), features_.size());
  const auto scratch_array = [&]<typename T>(T, std::size_t size) {
    return context_.scratch<T>(size, stream);
  };

  const Array<std::uint32_t> bag_of = scratch_array(std::uint32_t{}, count);
  const Array<Key> sorted = scratch_array(Key{}, count);
  const Array<std::uint32_t> positions = scratch_array(std::uint32_t{}, count);
  std::size_t scratch_bytes = host::sort_scratch<Key>(count);
#if MILLRACE_HAS_CUDA
  if (context_.gpu()) {
    const cuda::CurrentDevice current{*context_.gpu()};
    scratch_bytes = cuda::sort_scratch<Key>(count, bits);
  }
#endif
  Array<std::byte> scratch = scratch_array(std::byte{}, scratch_bytes);
  {
    const Array<Key> rows = scratch_array(Key{}, count);
    const Array<std::uint32_t> unsorted = scratch_array(std::uint32_t{}, count);
    enqueue<host::linearise<Key, Id, Offset>, cuda::linearise<Key, Id, Offset>>(
        context_, stream, {.name = "linearise", .bytes = ids * (sizeof(Id) + sizeof(Key) + 8)},
        writes(rows), writes(unsorted), writes(bag_of), lookups, bags.ids<Id>(),
        bags.offsets<Offset>(), bags.batch.batch_size(), none);
    const double passes = (bits + 7) / 8;  // NOLINT: whole digits
    enqueue<host::sort_pairs<Key>, cuda::sort_pairs<Key>>(
        context_, stream, {.name = "sort", .bytes = passes * ids * 2 * (sizeof(Key) + 4)},
        writes(sorted), writes(positions), writes(scratch), reads(rows), reads(unsorted), bits);
  }

  const Array<Key> unique = scratch_array(Key{}, count);
  const Array<std::uint32_t> starts = scratch_array(std::uint32_t{}, count + 1);
  const Array<std::uint32_t> runs = scratch_array(std::uint32_t{}, 1);
  enqueue<host::find_runs<Key>, cuda::find_runs<Key>>(
      context_, stream, {.name = "find runs", .bytes = ids * (2 * sizeof(Key) + 4)}, writes(unique),
      writes(starts), writes(runs), writes(scratch), reads(sorted), none);
  scratch = {};

  const double moved = row_bytes(bags.batch);
  const Optimizer& optimizer = options_.optimizer;
  const double state = 2 + 2 * static_cast<double>(state_of_parameter(optimizer.kind));
  for_kind(optimizer.kind, [&]<OptimizerKind kind>() {
    enqueue<host::update_rows<kind, float, Key, Offset>, cuda::update_rows<kind, Key, Offset>>(
        context_, stream,
        {.name = "update tables", .flops = moved, .bytes = moved * (1 + state) + ids * 12},
        updates(weights_, scalars_), updates(m_), updates(v_),
        reads(static_cast<const float*>(gradient.data), bags.extent(gradient)), lookups,
        bags.offsets<Offset>(), bags.weights(), reads(positions), reads(bag_of), reads(unique),
        reads(starts), reads(runs), bags.shape(gradient), rule_of<float>(optimizer, steps_));
  });
  if (options_.observer == nullptr) return;
  options_.observer->rows_updated(
      {.rows = unique.data(),
       .row_type = sizeof(Key) == sizeof(std::int32_t) ? IndexType::int32 : IndexType::int64,
       .count = runs.data(),
       .most = std::min(count, rows_),
       .step = steps_,
       .stream = stream,
       .tables = views_});
}

void EmbeddingBags::backward(const KeyedJaggedTensor& batch, const float* factors,
                             const PooledMatrix& gradient, StreamRef stream) {
  const Bags bags = bags_of(batch, factors);
  if (options_.optimizer.kind == OptimizerKind::none) return;
  ++steps_;
  if (bags.ids_count() == 0) return;
  const auto& layout = batch.layout();
  with_types(layout.value_type, layout.length_type, [&]<typename Id, typename Offset>(Id, Offset) {
    if (rows_ <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      update<Id, Offset, std::uint32_t>(bags, gradient, stream);
    } else {
      update<Id, Offset, std::uint64_t>(bags, gradient, stream);
    }
  });
}

void EmbeddingBags::add_state(ModelState& state, const std::string& prefix) {
  const bool by_row = state_of_row(options_.optimizer.kind) != 0;
  for (const TableView& table : views_) {
    const std::string name = fmt::format("{}.{}", prefix, table.name);
    const std::size_t size = table.rows * table.width;
    state.tensors.push_back({name + ".weights", table.weights, size});
    if (table.m != nullptr) {
      state.tensors.push_back({name + ".m", table.m, by_row ? table.rows : size});
    }
    if (table.v != nullptr) state.tensors.push_back({name + ".v", table.v, size});
  }
  state.counters.push_back({prefix + ".steps", &steps_});
}

void EmbeddingBags::bind(float* weights) {
  weights_ = weights;
  std::size_t at = 0;
  for (TableView& table : views_) {
    table.weights = weights + at;
    at = rounded_up(at + table.rows * table.width, kTableAlignment);
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

}  // namespace millrace
