#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "capture/cuda/kernels.hpp"
#include "gpu/kernels/measure.hpp"

/// Random rows of eight tables of 10^6 rows, gathered into a slot in device memory. Bytes: the
/// weights and the number of each row, read and written.

namespace millrace::bench {
namespace {

using capture::BitShape;
using capture::DirtyCounts;
using capture::GatherRowsArguments;
using capture::GatherShape;
using capture::SourceTable;
using Key = std::uint32_t;
using model::reads;
using model::updates;
using model::writes;

constexpr std::size_t kTables = 8, kRowsOfTable = 1'000'000;
constexpr std::size_t kLists = 4;  ///< lists and slots: more bytes than an L2 cache holds

std::vector<SourceTable> make_tables(std::size_t width) {
  std::vector<SourceTable> tables;
  for (std::size_t t = 0; t < kTables; ++t) {
    tables.push_back({.first_row = static_cast<std::int64_t>(t * kRowsOfTable),
                      .rows = static_cast<std::int64_t>(kRowsOfTable),
                      .weights = static_cast<std::int64_t>(t * kRowsOfTable * width),
                      .width = static_cast<std::int32_t>(width)});
  }
  return tables;
}

/// Distinct rows of all tables in ascending order: one random row in each stretch of equal length.
std::vector<Key> drawn_rows(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  const std::size_t stride = kTables * kRowsOfTable / count;
  std::vector<Key> rows(count);
  for (std::size_t i = 0; i < count; ++i) {
    rows[i] = static_cast<Key>(i * stride + random() % stride);
  }
  return rows;
}

struct GatherCase {
  std::size_t rows, width;
};

void gather(benchmark::State& state, const GatherCase& of) {
  const std::size_t bytes = capture::numbers_begin(kTables, of.rows, sizeof(Key)) + 16 * kTables +
                            of.rows * of.width * sizeof(float) + (std::size_t{1} << 10);
  const DeviceArray<float> weights{kTables * kRowsOfTable * of.width};
  const DeviceArray<SourceTable> tables{make_tables(of.width)};
  const BitShape bit_shape{.rows = kTables * kRowsOfTable};
  const DeviceArray<std::uint32_t> bits{bit_shape.words()};
  const DeviceArray<DirtyCounts> counts{std::vector<DirtyCounts>(1)};
  const DeviceArray<std::uint32_t> count{
      std::vector<std::uint32_t>{static_cast<std::uint32_t>(of.rows)}};
  fill_with_numbers(weights);
  std::vector<DeviceArray<Key>> lists;
  std::vector<DeviceArray<std::byte>> slots;
  for (std::size_t i = 0; i < kLists; ++i) {
    lists.emplace_back(drawn_rows(of.rows, i));
    slots.emplace_back(bytes);
  }
  const GatherShape shape{.capacity = bytes, .weights = 1};
  const double row = 4.0 * static_cast<double>(of.width) + sizeof(Key);
  measure(state, {2 * row * static_cast<double>(of.rows), [&](Queue queue, std::size_t launch) {
                    const std::size_t i = launch % kLists;
                    capture::cuda::gather_rows(
                        queue, GatherRowsArguments<float, Key>{
                                   .slot = writes(slots[i].all()),
                                   .dirty = {updates(bits.all()), updates(counts.all()), bit_shape},
                                   .from = {.home = {.weights = reads(weights.read())},
                                            .tables = reads(tables.read())},
                                   .rows = reads(lists[i].read()),
                                   .count = reads(count.read()),
                                   .shape = shape});
                  }});
}

}  // namespace

void register_gathers() {
  for (const std::size_t rows : {100'000U, 1'000'000U}) {
    for (const std::size_t width : {16U, 64U, 128U}) {
      register_kernel(
          fmt::format("gather_rows/rows:{}/width:{}", rows, width),
          [of = GatherCase{rows, width}](benchmark::State& state) { gather(state, of); });
    }
  }
}

}  // namespace millrace::bench
