#include "millrace/pipeline/data/table_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

#include "data/row_batch.hpp"
#include "data/shuffle.hpp"

namespace millrace {
namespace {

void check(const ExampleTable& table, const TableSettings& settings) {
  if (settings.batch_size == 0) throw std::invalid_argument{"a batch has at least one example"};
  table.schema.check();
  if (!table.schema.weighted.empty()) {
    throw std::invalid_argument{"a table of examples has no weighted features"};
  }
  if (table.dense.size() != table.size() * table.schema.dense.size() ||
      table.ids.size() != table.size() * table.schema.sparse.size()) {
    throw std::invalid_argument{
        fmt::format("a table of {} examples, {} dense and {} sparse features has {} dense values "
                    "and {} ids",
                    table.size(), table.schema.dense.size(), table.schema.sparse.size(),
                    table.dense.size(), table.ids.size())};
  }
}

}  // namespace

struct TableSource::State {
  State(std::shared_ptr<const ExampleTable> examples, const TableSettings& given,
        const PinnedStaging& room)
      : table(std::move(examples)), settings(given), staging(room), rows(table->schema) {
    check(*table, settings);
  }

  [[nodiscard]] std::uint64_t batches() const {
    const std::size_t whole = table->size() / settings.batch_size;
    return settings.drop_last || table->size() % settings.batch_size == 0 ? whole : whole + 1;
  }

  void draw_order() {
    if (!settings.shuffle || order_of == position.epoch) return;
    // Depends on the epoch's number only, so a run that continues in an epoch has the same order.
    order = drawn_order(table->size(), Draws{*settings.shuffle}.branch(position.epoch));
    order_of = position.epoch;
  }

  void add(std::size_t row) {
    const std::size_t dense = table->schema.dense.size(), sparse = table->schema.sparse.size();
    rows.add(table->labels[row], std::span{table->dense}.subspan(row * dense, dense),
             std::span{table->ids}.subspan(row * sparse, sparse));
  }

  std::shared_ptr<const ExampleTable> table;
  const TableSettings settings;
  PinnedStaging staging;
  RowBatch rows;
  BatchPosition position;
  std::vector<std::size_t> order;
  std::optional<std::uint64_t> order_of;
};

TableSource::TableSource(std::shared_ptr<const ExampleTable> examples,
                         const TableSettings& settings, const PinnedStaging& staging)
    : state_(std::make_unique<State>(std::move(examples), settings, staging)) {}

TableSource::~TableSource() = default;

const InputSchema& TableSource::schema() const { return state_->table->schema; }

std::optional<ModelInput> TableSource::do_next() {
  State& state = *state_;
  if (state.position.batch >= state.batches()) return std::nullopt;
  state.draw_order();
  const std::size_t begin = state.position.batch * state.settings.batch_size;
  const std::size_t end = std::min(begin + state.settings.batch_size, state.table->size());
  state.rows.clear();
  for (std::size_t i = begin; i < end; ++i) {
    state.add(state.settings.shuffle ? state.order[i] : i);
  }
  ModelInput batch = state.rows.stage(state.staging);
  ++state.position.batch;
  return batch;
}

BatchPosition TableSource::position() const { return state_->position; }

void TableSource::do_seek(BatchPosition position) { state_->position = position; }

}  // namespace millrace
