// The tables of EmbeddingBags: their memory, initial values and state in a checkpoint.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "millrace/pipeline/kernels/enqueue.hpp"
#include "millrace/pipeline/model/embedding_bags.hpp"
#include "millrace/round_up.hpp"
#include "model/cuda/kernels.hpp"
#include "model/draw.hpp"
#include "model/host/dense.hpp"
#include "model/host/initial.hpp"
#include "model/row_cache.hpp"
#include "model/seed.hpp"
#include "model/shapes.hpp"

namespace millrace {

using namespace model;

namespace {

// In floats. Each table begins at a multiple of 64 bytes, so that kernels may load four floats at
// once if the row's width allows it.
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
  initialize();
}

EmbeddingBags::~EmbeddingBags() = default;

// All tables are parts of one array, and their rows are numbered consecutively. One kernel then
// serves any number of tables, and one number identifies a row of any table.
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
    // A cache keeps the tables in its own host memory, not in the caller's.
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

void EmbeddingBags::initialize() {
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
    // Depends on the row's place in the whole table, so each way of sharding begins with the same
    // weights.
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
  // All bytes 0xFF means "no bad id": this is greater than any position, and kernels keep the
  // smallest position.
  context_.device().fill(bad_.data(), 0xFF, bad_.size(), main.handle());
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

}  // namespace millrace
