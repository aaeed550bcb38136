#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/pipeline/kernels/array_view.hpp"

/// @file
/// The arguments of the sorting of ids by row. Conventions: embedding_arguments.hpp.

namespace millrace::model {

/**
 * @brief Sorts pairs by the lowest `bits` bits of their keys. Stable; the inputs stay unchanged.
 */
template <typename Key>
struct SortPairsArguments {
  ArrayView<Key> sorted_keys;              ///< written
  ArrayView<std::uint32_t> sorted_values;  ///< written
  ArrayView<std::byte> scratch;            ///< `sort_scratch` bytes
  ArrayView<const Key> keys;
  ArrayView<const std::uint32_t> values;
  unsigned bits = 0;
};

/** @brief Run-length encoding of sorted rows, without those that are `none`. */
template <typename Key>
struct FindRunsArguments {
  ArrayView<Key> unique;            ///< written: the row of each run
  ArrayView<std::uint32_t> starts;  ///< written: start of each run, then the end
  ArrayView<std::uint32_t> count;   ///< written, one element: number of runs
  ArrayView<std::byte> scratch;     ///< `sort_scratch` bytes
  ArrayView<const Key> sorted;
  Key none = 0;
};

}  // namespace millrace::model
