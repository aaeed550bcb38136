// CUB's kernels are internal to CUB. This file implements the whole effect of each kernel, for the
// toolkits whose kernels have these parameters. The patterns contain the parameters, so that other
// kernels have no row.

#include "model/cuda/sort.cu"

#include <cuda_runtime.h>

#include <algorithm>

#include "model/host/embedding.hpp"
#include "test/virtual_kernels/rows.hpp"

namespace millrace::test::virtual_kernels {

using namespace model;
namespace code = model::cuda;
namespace host = model::host;

namespace {

constexpr std::size_t kPointer = sizeof(void*), kInt = sizeof(int);

void do_nothing(const MillraceLaunch*) {}

/** The keys and values of a stable sort by some of the keys' bits. */
template <typename Key>
struct Pairs {
  const Key* keys;
  Key* sorted_keys;
  const std::uint32_t* values;
  std::uint32_t* sorted_values;
  std::size_t count;

  void sort(int begin_bit, int bits) const {
    const Key mask = bits == 0 ? 0 : static_cast<Key>(~std::uint64_t{0} >> (64 - bits));
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return ((keys[a] >> begin_bit) & mask) < ((keys[b] >> begin_bit) & mask);
    });
    for (std::size_t i = 0; i < count; ++i) {
      sorted_keys[i] = keys[order[i]];
      sorted_values[i] = values[order[i]];
    }
  }
};

// (keys_in, keys_out, values_in, values_out, count, begin_bit, end_bit, decomposer)
template <typename Key>
void sort_in_a_tile(const MillraceLaunch* launch) {
  const Pairs<Key> pairs{argument<const Key*>(*launch, 0), argument<Key*>(*launch, 1),
                         argument<const std::uint32_t*>(*launch, 2),
                         argument<std::uint32_t*>(*launch, 3), argument<std::uint32_t>(*launch, 4)};
  const int begin = argument<int>(*launch, 5), end = argument<int>(*launch, 6);
  pairs.sort(begin, end - begin);
}

// (lookback, counters, bins_out, bins_in, keys_out, keys_in, values_out, values_in, count,
// begin_bit, bits, decomposer): one pass. It has all the keys if it passes no bins on.
template <typename Key>
void sort_by_a_digit(const MillraceLaunch* launch) {
  if (argument<void*>(*launch, 2) != nullptr) fail(*launch, "more keys than one pass sorts");
  const Pairs<Key> pairs{argument<const Key*>(*launch, 5), argument<Key*>(*launch, 4),
                         argument<const std::uint32_t*>(*launch, 7),
                         argument<std::uint32_t*>(*launch, 6),
                         static_cast<std::size_t>(argument<int>(*launch, 8))};
  pairs.sort(argument<int>(*launch, 9), argument<int>(*launch, 10));
}

// (tile_state, tiles, selected). Nothing is selected yet.
void begin_selection(const MillraceLaunch* launch) { *argument<std::uint32_t*>(*launch, 2) = 0; }

// (in, flags, out, selected, tile_state, predicate, equality, count, ...), where `in` counts from
// 0.
template <typename Key>
void select_starts(const MillraceLaunch* launch) {
  auto* out = argument<std::uint32_t*>(*launch, 2);
  auto& selected = *argument<std::uint32_t*>(*launch, 3);
  const auto& begins = argument<code::BeginsRun<Key>>(*launch, 5);
  const int count = argument<int>(*launch, 7);
  selected = 0;
  for (int i = 0; i < count; ++i) {
    if (begins(static_cast<std::uint32_t>(i))) out[selected++] = static_cast<std::uint32_t>(i);
  }
}

/** @param key  the type of keys, as c++filt prints it */
template <typename Key>
void add_sorts(std::vector<Row>& rows, const std::string& key) {
  const std::string pairs = key + " const*, " + key + "*, unsigned int const*, unsigned int*, ";
  rows.push_back(
      {.pattern = "*DeviceRadixSortSingleTileKernel<*>(" + pairs + "unsigned int, int, int, *",
       .argument_bytes = {kPointer, kPointer, kPointer, kPointer, kInt, kInt, kInt},
       .run = sort_in_a_tile<Key>});
  rows.push_back(
      {.pattern = "*DeviceRadixSortHistogramKernel<*>(unsigned int*, " + key + " const*, *",
       .argument_bytes = {},
       .run = do_nothing});
  rows.push_back(
      {.pattern =
           "*DeviceRadixSortOnesweepKernel<*>(int*, int*, unsigned int*, unsigned int const*, " +
           key + "*, " + key + " const*, unsigned int*, unsigned int const*, int, int, int, *",
       .argument_bytes = {0, 0, kPointer, 0, kPointer, kPointer, kPointer, kPointer, kInt, kInt,
                          kInt},
       .run = sort_by_a_digit<Key>});
  rows.push_back(
      {.pattern = "*DeviceSelectSweepKernel<*BeginsRun<" + key + ">*",
       .argument_bytes = {0, 0, kPointer, kPointer, 0, sizeof(code::BeginsRun<Key>), 0, kInt},
       .run = select_starts<Key>});
}

}  // namespace

void add_rows_of_sort(std::vector<Row>& rows) {
  add_sorts<std::uint32_t>(rows, "unsigned int");
  add_sorts<std::uint64_t>(rows, "unsigned long");
  // Computes the bins, which the passes above do not use.
  rows.push_back({.pattern = "*DeviceRadixSortExclusiveSumKernel<*", .run = do_nothing});
  rows.push_back({.pattern = "*DeviceCompactInitKernel<*",
                  .argument_bytes = {0, 0, kPointer},
                  .run = begin_selection});
  for_types<std::uint32_t, std::uint64_t>([&]<typename Key>() {
    rows.push_back(twin<code::complete_runs<Key>, host::find_runs<Key>>());
  });
}

}  // namespace millrace::test::virtual_kernels
