#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>

#include "gpu/kernels/measure.hpp"
#include "model/cuda/kernels.hpp"

/// Tables of one width, with one feature each. Ids are uniform over the rows.
///
/// Bytes of a look-up: for each id, the id and its row; for each bag, an offset and its pooled row.
/// Bytes of an update: for each lookup, its gradient row and 8 bytes for its position; for each
/// updated row, its weights and state, read and written. A gradient row of a bag of 20 counts 20
/// times. Most of these reads hit L2, so shares above 1 are possible.

namespace millrace::bench {
namespace {

namespace kernels = model::cuda;
using model::Lookup;
using model::reads;
using model::updates;
using model::writes;
using Key = std::uint32_t;

constexpr std::size_t kBatch = 8192;
constexpr std::size_t kMostTables = 26;

struct Case {
  std::size_t rows, width, pooling;
};

/// The tables of a case on the device, and a batch of lookups.
class Bags {
 public:
  explicit Bags(const Case& of)
      : of_(of),
        tables_(tables_that_fit(of)),
        weights_(tables_ * of.rows * of.width),
        lookups_(make_lookups()),
        ids_(make_ids()),
        offsets_(make_offsets()),
        bad_(std::vector<model::BadId>(1)) {
    fill_with_numbers(weights_);
  }

  [[nodiscard]] std::size_t tables() const { return tables_; }
  [[nodiscard]] std::size_t lookups() const { return ids_.size(); }
  [[nodiscard]] std::size_t rows() const { return tables_ * of_.rows; }
  [[nodiscard]] std::size_t columns() const { return tables_ * of_.width; }
  [[nodiscard]] std::size_t bags() const { return tables_ * kBatch; }
  [[nodiscard]] model::BagLayout<std::int32_t> layout() const {
    return {reads(lookups_.read()), reads(offsets_.read()), kBatch};
  }
  [[nodiscard]] std::span<float> weights() const { return weights_.all(); }
  [[nodiscard]] std::span<const std::int64_t> ids() const { return ids_.read(); }
  [[nodiscard]] std::span<model::BadId> bad() const { return bad_.all(); }

 private:
  /// Up to 26 tables in half of the device's free memory.
  static std::size_t tables_that_fit(const Case& of) {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    const std::size_t table = of.rows * of.width * sizeof(float);
    return std::clamp<std::size_t>(free / 2 / table, 1, kMostTables);
  }
  [[nodiscard]] std::vector<Lookup> make_lookups() const {
    std::vector<Lookup> lookups;
    for (std::size_t t = 0; t < tables_; ++t) {
      lookups.push_back({.weights = static_cast<std::int64_t>(t * of_.rows * of_.width),
                         .first_row = static_cast<std::int64_t>(t * of_.rows),
                         .rows = static_cast<std::int64_t>(of_.rows),
                         .width = static_cast<std::int32_t>(of_.width),
                         .column = static_cast<std::int32_t>(t * of_.width),
                         .table = static_cast<std::int32_t>(t)});
    }
    return lookups;
  }
  [[nodiscard]] std::vector<std::int64_t> make_ids() const {
    std::mt19937_64 random{1};
    std::vector<std::int64_t> ids(bags() * of_.pooling);
    for (auto& id : ids) id = static_cast<std::int64_t>(random() % of_.rows);
    return ids;
  }
  [[nodiscard]] std::vector<std::int32_t> make_offsets() const {
    std::vector<std::int32_t> offsets(bags() + 1);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      offsets[i] = static_cast<std::int32_t>(i * of_.pooling);
    }
    return offsets;
  }

  Case of_;
  std::size_t tables_;
  DeviceArray<float> weights_;
  DeviceArray<Lookup> lookups_;
  DeviceArray<std::int64_t> ids_;
  DeviceArray<std::int32_t> offsets_;
  DeviceArray<model::BadId> bad_;
};

void look_up(benchmark::State& state, const Case& of) {
  const Bags bags{of};
  const DeviceArray<float> pooled{kBatch * bags.columns()};
  const double row = 4.0 * static_cast<double>(of.width);
  state.counters["tables"] = static_cast<double>(bags.tables());
  measure(state, {static_cast<double>(bags.lookups()) * (8 + row) +
                      static_cast<double>(bags.bags()) * (4 + row),
                  [&](Queue queue, std::size_t) {
                    kernels::look_up(queue,
                                     model::LookUpArguments<float, std::int64_t, std::int32_t>{
                                         .pooled = {writes(pooled.all()), bags.columns(), 0},
                                         .bad = updates(bags.bad()),
                                         .tables = {.home = reads(bags.weights())},
                                         .bags = bags.layout(),
                                         .ids = reads(bags.ids())});
                  }});
}

/// The sorted rows of a batch, which the update needs.
class SortedRows {
 public:
  explicit SortedRows(const Bags& bags)
      : bags_(bags),
        count_(bags.lookups()),
        none_(static_cast<Key>(bags.rows())),
        bits_(static_cast<unsigned>(std::bit_width(none_))),
        scratch_(kernels::sort_scratch<Key>(count_, bits_)) {
    const Queue queue{cudaStreamLegacy, nullptr};
    kernels::linearise(queue, model::LineariseArguments<Key, std::int64_t, std::int32_t>{
                                  .rows = writes(keys_.all()),
                                  .positions = writes(unsorted_.all()),
                                  .bag_of = writes(bag_of_.all()),
                                  .bags = bags.layout(),
                                  .ids = reads(bags.ids()),
                                  .none = none_});
    sort(queue);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::uint32_t unique = 0;
    check(cudaMemcpy(&unique, found_.data(), sizeof unique, cudaMemcpyDeviceToHost), "cudaMemcpy");
    unique_count_ = unique;
  }

  void sort(Queue queue) const {
    kernels::sort_pairs(queue,
                        model::SortPairsArguments<Key>{.sorted_keys = writes(sorted_.all()),
                                                       .sorted_values = writes(positions_.all()),
                                                       .scratch = writes(scratch_.all()),
                                                       .keys = reads(keys_.read()),
                                                       .values = reads(unsorted_.read()),
                                                       .bits = bits_});
    kernels::find_runs(queue, model::FindRunsArguments<Key>{.unique = writes(unique_.all()),
                                                            .starts = writes(starts_.all()),
                                                            .count = writes(found_.all()),
                                                            .scratch = writes(scratch_.all()),
                                                            .sorted = reads(sorted_.read()),
                                                            .none = none_});
  }
  void update(Queue queue, std::span<float> state, std::span<const float> gradient) const {
    kernels::update_rows(queue, model::UpdateRowsArguments<float, Key, std::int32_t>{
                                    .tables = {.home = {.weights = updates(bags_.weights()),
                                                        .first_moment = updates(state)},
                                               .layout = {.moment_of_row = true}},
                                    .gradient = {reads(gradient), bags_.columns(), 0},
                                    .bags = bags_.layout(),
                                    .sorted = {.rows = reads(unique_.read()),
                                               .starts = reads(starts_.read()),
                                               .count = reads(found_.read()),
                                               .positions = reads(positions_.read()),
                                               .bag_of = reads(bag_of_.read())},
                                    .rule = {.kind = OptimizerKind::rowwise_adagrad,
                                             .learning_rate = 1e-3F,
                                             .epsilon = 1e-8F}});
  }
  [[nodiscard]] double unique() const { return static_cast<double>(unique_count_); }
  /// Number of 8-bit digits that the sort processes.
  [[nodiscard]] unsigned passes() const { return (bits_ + 7) / 8; }

 private:
  const Bags& bags_;
  std::size_t count_;
  Key none_;
  unsigned bits_;
  DeviceArray<std::byte> scratch_;
  DeviceArray<Key> keys_{count_}, sorted_{count_}, unique_{count_};
  DeviceArray<std::uint32_t> unsorted_{count_}, positions_{count_}, bag_of_{count_},
      starts_{count_ + 1}, found_{1};
  std::size_t unique_count_ = 0;
};

void sort(benchmark::State& state, const Case& of) {
  const Bags bags{of};
  const SortedRows rows{bags};
  // Each pass reads and writes a number and a position. Finding the runs reads the numbers twice.
  const double bytes = static_cast<double>(bags.lookups()) * (rows.passes() * 16.0 + 8);
  measure(state, {bytes, [&](Queue queue, std::size_t) { rows.sort(queue); }});
}

void update_rows(benchmark::State& state, const Case& of) {
  const Bags bags{of};
  const SortedRows rows{bags};
  const DeviceArray<float> gradient{kBatch * bags.columns()}, moments{bags.rows()};
  fill_with_numbers(gradient, 1e-3F);
  check(cudaMemset(moments.data(), 0, moments.bytes()), "cudaMemset");
  const double row = 4.0 * static_cast<double>(of.width);
  state.counters["tables"] = static_cast<double>(bags.tables());
  state.counters["rows_updated"] = rows.unique();
  measure(state,
          {static_cast<double>(bags.lookups()) * (8 + row) + rows.unique() * 2 * (row + 4),
           [&](Queue queue, std::size_t) { rows.update(queue, moments.all(), gradient.read()); }});
}

}  // namespace

void register_embeddings() {
  using Body = void (*)(benchmark::State&, const Case&);
  const auto add = [](const char* name, Body body, const Case& of) {
    register_kernel(
        fmt::format("{}/rows:{}/width:{}/pooling:{}", name, of.rows, of.width, of.pooling),
        [body, of](benchmark::State& state) { body(state, of); });
  };
  constexpr std::size_t kRows = 1'000'000, kHotRows = 100;
  for (const std::size_t width : {64U, 128U}) {
    for (const std::size_t pooling : {1U, 20U}) {
      add("look_up", look_up, {kRows, width, pooling});
      add("update_rows", update_rows, {kRows, width, pooling});
    }
  }
  add("update_rows", update_rows, {kHotRows, 128, 1});  // every run of equal rows is long
  add("sort_and_find_runs", sort, {kRows, 64, 1});
  add("sort_and_find_runs", sort, {kRows, 64, 20});
}

}  // namespace millrace::bench
