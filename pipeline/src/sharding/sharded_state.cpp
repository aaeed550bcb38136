#include "sharding/sharded_state.hpp"

#include <algorithm>
#include <utility>

#include "millrace/pipeline/model/optimizer.hpp"
#include "model/state_transfer.hpp"

namespace millrace::sharding {

namespace {

class Placing {
 public:
  Placing(const SparseNNConfig& config, const Layout& layout, const ModelState& of_rank)
      : config_(config), layout_(layout), of_rank_(of_rank) {
    const OptimizerKind kind = config.table_optimizer.kind;
    const std::size_t of_table = 1 + state_of_parameter(kind) + state_of_row(kind);
    // A rank's own state begins with its tables, each with its optimizer state. Dense parameters
    // follow.
    next_dense_ = (layout.sides[0].local.size() + layout.sides[1].local.size()) * of_table;
  }

  void add_table(const std::string& prefix, const TableConfig& table,
                 const TablePlacement& placement);
  std::vector<PlacedTensor> with_the_rest() {
    while (next_dense_ < of_rank_.tensors.size()) {
      add_everywhere(of_rank_.tensors[next_dense_].name);
    }
    return std::move(placed_);
  }

 private:
  void add_part(const std::string& name, const TableConfig& table, const TablePlacement& placement,
                std::size_t of_row);
  void add_everywhere(const std::string& name);

  const SparseNNConfig& config_;
  const Layout& layout_;
  const ModelState& of_rank_;
  std::size_t next_local_ = 0, next_dense_ = 0;  ///< next tensors in the rank's own state
  std::vector<PlacedTensor> placed_;
};

// A data-parallel table has the state of the dense optimizer. If that optimizer is of another kind
// than the tables', its state has other names.
void Placing::add_table(const std::string& prefix, const TableConfig& table,
                        const TablePlacement& placement) {
  const std::string name = prefix + '.' + table.name + '.';
  const OptimizerKind kind = config_.table_optimizer.kind, dense = config_.dense_optimizer.kind;
  if (placement.sharding == Sharding::data_parallel) {
    const std::string of_optimizer = kind == dense ? name : name + "dense.";
    add_everywhere(name + "weights");
    for (std::size_t i = 0; i < state_of_parameter(dense); ++i) {
      add_everywhere(of_optimizer + (i == 0 ? "m" : "v"));
    }
    return;
  }
  add_part(name + "weights", table, placement, table.width);
  if (state_of_row(kind) > 0) add_part(name + "m", table, placement, 1);
  for (std::size_t i = 0; i < state_of_parameter(kind); ++i) {
    add_part(name + (i == 0 ? "m" : "v"), table, placement, table.width);
  }
}

/** @param of_row  number of values for each row */
void Placing::add_part(const std::string& name, const TableConfig& table,
                       const TablePlacement& placement, std::size_t of_row) {
  PlacedTensor tensor{.name = name, .size = table.rows * of_row, .parts = {}, .here = {}};
  tensor.here = {.name = name, .whole = tensor.size};
  const bool by_rows = placement.sharding == Sharding::row_wise;
  const std::size_t block = by_rows ? (table.rows + layout_.ranks - 1) / layout_.ranks : table.rows;
  const unsigned first = by_rows ? 0 : placement.rank;
  const unsigned last = by_rows ? layout_.ranks - 1 : placement.rank;
  for (unsigned rank = first; rank <= last; ++rank) {
    const std::size_t row = (rank - first) * block;
    const std::size_t rows = std::min(block, table.rows - row);
    const auto& part =
        tensor.parts.emplace_back(PlacedTensor::Part{rank, row * of_row, rows * of_row});
    if (rank != layout_.rank) continue;
    const StateTensor& of_rank = of_rank_.tensors[next_local_++];
    tensor.here.data = of_rank.data;
    tensor.here.in_host_memory = of_rank.in_host_memory;
    tensor.here.size = part.size;
    tensor.here.first = part.first;
  }
  placed_.push_back(std::move(tensor));
}

void Placing::add_everywhere(const std::string& name) {
  StateTensor here = of_rank_.tensors[next_dense_++];
  here.name = name;
  const std::uint64_t size = here.size;
  placed_.push_back({.name = name, .size = size, .parts = {{0, 0, size}}, .here = std::move(here)});
}

}  // namespace

std::vector<PlacedTensor> placed_tensors(const SparseNNConfig& config, const ShardingPlan& plan,
                                         const Layout& layout, const ModelState& of_rank) {
  Placing placing{config, layout, of_rank};
  for (std::size_t i = 0; i < config.tables.size(); ++i) {
    placing.add_table("table", config.tables[i], plan.tables[i]);
  }
  for (std::size_t i = 0; i < config.weighted_tables.size(); ++i) {
    placing.add_table("weighted_table", config.weighted_tables[i], plan.weighted_tables[i]);
  }
  return placing.with_the_rest();
}

std::vector<WholeState::Tensor> ShardedState::tensors() const {
  std::vector<Tensor> all;
  for (const PlacedTensor& tensor : placed_) all.push_back({tensor.name, tensor.size});
  return all;
}

std::vector<WholeState::Counter> ShardedState::counters() const {
  std::vector<Counter> all;
  for (const StateCounter& counter : counters_) all.push_back({counter.name, *counter.value});
  return all;
}

void ShardedState::read(std::size_t index, const Use& use) {
  const PlacedTensor& tensor = placed_[index];
  std::vector<float> piece;
  for (const PlacedTensor::Part& part : tensor.parts) {
    // All ranks call this: the transfer is an all-to-all to which the other ranks add nothing.
    if (part.rank != 0) {
      send(tensor.here, part.rank, part.size, use);
    } else if (group_.rank() == 0 && use) {
      model::download(tensor.here, context_, piece, use);
    }
  }
}

/** Sends a part from rank `from` to rank 0, from device memory to device memory, piece by piece. */
void ShardedState::send(const StateTensor& here, unsigned from, std::size_t size, const Use& use) {
  Stream& main = context_.main();
  const bool sends = group_.rank() == from, receives = group_.rank() == 0;
  std::vector<float> piece;
  const std::size_t most = std::min(model::kPiece, size);
  // Cached tables are in host memory, and a group transfers device memory.
  const bool staged = sends && here.in_host_memory;
  const Array<float> room = context_.scratch<float>(receives || staged ? most : 0, main);
  for (std::size_t done = 0; done < size; done += most) {
    const std::size_t count = std::min(most, size - done);
    std::vector<SentBytes> to(group_.size());
    std::vector<ReceivedBytes> out(group_.size());
    if (sends) to[0] = {staged ? room.data() : here.data + done, count * sizeof(float)};
    if (staged) {
      context_.device().copy(room.data(), here.data + done, to[0].bytes, CopyKind::host_to_device,
                             main.handle());
    }
    if (receives) out[from] = {room.data(), count * sizeof(float)};
    group_.all_to_all(to, out, main);
    if (!receives || !use) continue;
    model::download({.name = {}, .data = room.data(), .size = count}, context_, piece, use);
  }
  main.synchronize();
  group_.check();
}

}  // namespace millrace::sharding
