#pragma once

#include <cstddef>
#include <cstdint>

#include "capture/layout.hpp"
#include "millrace/pipeline/kernels/array_view.hpp"
#include "millrace/pipeline/kernels/row_storage.hpp"

/// @file
/// The arguments of the kernels of tracking and capture: one struct for each kernel, filled by
/// DirtyRows or SourceRows, and the same for the host kernel and the CUDA kernel. A view without
/// elements means "none".

namespace millrace::capture {

using model::ArrayView;

/** @brief The dirty rows of a source, as kernels see them. */
struct DirtyView {
  ArrayView<std::uint32_t> bits;
  ArrayView<DirtyCounts> counts;  ///< one
  BitShape shape;
};

/** @brief Marks the rows of a list as dirty; numbers that are not rows are ignored. */
template <typename Key>
struct MarkRowsArguments {
  DirtyView dirty;
  ArrayView<const Key> rows;
  ArrayView<const std::uint32_t> count;  ///< one: size of `rows`
};

/** @brief Marks rows `first` up to, but not including, `end` as dirty. */
struct MarkRangeArguments {
  DirtyView dirty;
  std::uint64_t first = 0, end = 0;
};

/**
 * @brief Takes at most `rows.size()` dirty rows in ascending order. Continues where the last
 *        collection ended, and begins again at the first row after the last one.
 */
template <typename Key>
struct CollectRowsArguments {
  ArrayView<Key> rows;               ///< written
  ArrayView<std::uint32_t> count;    ///< written, one: size of `rows`
  ArrayView<std::uint32_t> scratch;  ///< `collect_scratch` numbers; host kernel: none
  DirtyView dirty;
};

/** @brief The place of each row of a list: in its table, or at a slot of the cache. */
template <typename T>
struct RowSources {
  model::RowStorage<const T> home, cached;
  ArrayView<const std::int32_t> slots;  ///< for each row of the list; none: all are in their tables
  ArrayView<const SourceTable> tables;
};

/** @brief Copies rows and their ids into a slot; rows without room become dirty. */
template <typename T, typename Key>
struct GatherRowsArguments {
  ArrayView<std::byte> slot;  ///< written
  DirtyView dirty;
  RowSources<T> from;
  ArrayView<const Key> rows;             ///< the list: ascending, counted through the tables
  ArrayView<const std::uint32_t> count;  ///< one: size of `rows`
  GatherShape shape;
};

}  // namespace millrace::capture
