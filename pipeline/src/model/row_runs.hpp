#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "millrace/device/cuda_calls.hpp"
#include "millrace/pipeline/kernels/enqueue.hpp"
#include "millrace/pipeline/model/model_context.hpp"
#include "model/cuda/kernels.hpp"
#include "model/host/embedding.hpp"
#include "model/host/radix_sort.hpp"

namespace millrace::model {

/** @brief The different numbers of a list, ascending, and the positions of each. */
template <typename Key>
struct RowRuns {
  Array<std::uint32_t> positions;  ///< positions of all numbers, sorted by number; stable
  Array<Key> unique;
  Array<std::uint32_t> starts;  ///< start of each number's run in `positions`
  Array<std::uint32_t> count;   ///< one element: size of `unique`
};

template <typename Key>
[[nodiscard]] std::size_t sorting_scratch(const ModelContext& context, std::size_t count,
                                          unsigned bits) {
#if MILLRACE_HAS_CUDA
  if (context.gpu()) {
    const CurrentGpu current{*context.gpu()};
    return cuda::sort_scratch<Key>(count, bits);
  }
#endif
  static_cast<void>(context);
  static_cast<void>(bits);
  return host::sort_scratch<Key>(count);
}

/**
 * @brief Enqueues the sorting of `count` numbers. Numbers equal to `none`, the largest, are left
 * out.
 * @param fill  writes its two arguments: the numbers, and their positions from 0 on
 */
template <typename Key>
[[nodiscard]] RowRuns<Key> find_row_runs(
    ModelContext& context, std::size_t count, Key none, StreamRef stream,
    const std::function<void(ArrayView<Key>, ArrayView<std::uint32_t>)>& fill) {
  const auto bits = static_cast<unsigned>(std::bit_width(none));
  const double numbers = static_cast<double>(count);
  const auto scratch_array = [&]<typename T>(T, std::size_t size) {
    return context.scratch<T>(size, stream);
  };

  RowRuns<Key> runs;
  const Array<Key> sorted = scratch_array(Key{}, count);
  runs.positions = scratch_array(std::uint32_t{}, count);
  const Array<std::byte> scratch =
      scratch_array(std::byte{}, sorting_scratch<Key>(context, count, bits));
  {
    const Array<Key> keys = scratch_array(Key{}, count);
    const Array<std::uint32_t> unsorted = scratch_array(std::uint32_t{}, count);
    fill(writes(keys), writes(unsorted));
    const double passes = (bits + 7) / 8;  // NOLINT: whole digits
    enqueue<host::sort_pairs<Key>, cuda::sort_pairs<Key>>(
        context, stream, {.name = "sort", .bytes = passes * numbers * 2 * (sizeof(Key) + 4)},
        SortPairsArguments<Key>{.sorted_keys = writes(sorted),
                                .sorted_values = writes(runs.positions),
                                .scratch = writes(scratch),
                                .keys = reads(keys),
                                .values = reads(unsorted),
                                .bits = bits});
  }
  runs.unique = scratch_array(Key{}, count);
  runs.starts = scratch_array(std::uint32_t{}, count + 1);
  runs.count = scratch_array(std::uint32_t{}, 1);
  enqueue<host::find_runs<Key>, cuda::find_runs<Key>>(
      context, stream, {.name = "find runs", .bytes = numbers * (2 * sizeof(Key) + 4)},
      FindRunsArguments<Key>{.unique = writes(runs.unique),
                             .starts = writes(runs.starts),
                             .count = writes(runs.count),
                             .scratch = writes(scratch),
                             .sorted = reads(sorted),
                             .none = none});
  return runs;
}

}  // namespace millrace::model
