#pragma once

#include <cstddef>
#include <cstdint>

#include "capture/layout.hpp"
#include "millrace/pipeline/kernels/array_view.hpp"
#include "millrace/pipeline/kernels/row_storage.hpp"

/// @file
/// The arguments of the kernels of tracking and capture. Each kernel has one struct, which
/// DirtyRows or SourceRows fills, and which the host kernel and the CUDA kernel share. A view
/// without elements means "none".

namespace millrace::capture {

using model::ArrayView;

/** @brief The dirty rows of a source, for kernels. */
struct DirtyView {
  ArrayView<std::uint32_t> bits;
  ArrayView<DirtyCounts> counts;  ///< one element
  BitShape shape;
};

/** @brief Marks the rows of a list as dirty; numbers that are not rows are ignored. */
template <typename Key>
struct MarkRowsArguments {
  DirtyView dirty;
  ArrayView<const Key> rows;
  ArrayView<const std::uint32_t> count;  ///< one element: size of the list
};

/** @brief Marks rows `first` up to, but not including, `end` as dirty. */
struct MarkRangeArguments {
  DirtyView dirty;
  std::uint64_t first = 0, end = 0;
};

/**
 * @brief Takes at most `rows.size()` dirty rows in ascending order. Continues where the last
 * collection ended. After the last row of the source it begins again with the first.
 */
template <typename Key>
struct CollectRowsArguments {
  ArrayView<Key> rows;               ///< written
  ArrayView<std::uint32_t> count;    ///< written, one element: size of the list
  ArrayView<std::uint32_t> scratch;  ///< `collect_scratch` numbers; host kernel: none
  DirtyView dirty;
};

/** @brief The place of each row of a list: in its table, or in a slot of the cache. */
template <typename T>
struct RowSources {
  model::RowStorage<const T> home, cached;
  /** For each row of the list; empty: all rows are in their tables. */
  ArrayView<const std::int32_t> slots;
  ArrayView<const SourceTable> tables;
};

/** @brief Copies rows and their ids into a slot; rows without room become dirty. */
template <typename T, typename Key>
struct GatherRowsArguments {
  ArrayView<std::byte> slot;  ///< written
  DirtyView dirty;
  RowSources<T> from;
  ArrayView<const Key> rows;             ///< the list: row ids, ascending
  ArrayView<const std::uint32_t> count;  ///< one element: size of the list
  GatherShape shape;
};

}  // namespace millrace::capture
