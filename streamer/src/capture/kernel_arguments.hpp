#pragma once

#include <cstddef>
#include <cstdint>

#include "capture/layout.hpp"
#include "millrace/pipeline/kernels/array_view.hpp"
#include "millrace/pipeline/kernels/row_storage.hpp"

/// @file
/// What the kernels of tracking and capture take: a struct for each, filled by DirtyRows or
/// SourceRows, and the same for the host kernel and the CUDA kernel. A view without elements stands
/// for "none".

namespace millrace::capture {

using model::ArrayView;

/** @brief The dirty rows of a source, as kernels see them. */
struct DirtyView {
  ArrayView<std::uint32_t> bits;
  ArrayView<DirtyCounts> counts;  ///< one
  BitShape shape;
};

/** @brief Rows of a list become dirty: all numbers in it that may be rows. */
template <typename Key>
struct MarkRowsArguments {
  DirtyView dirty;
  ArrayView<const Key> rows;
  ArrayView<const std::uint32_t> count;  ///< one: of `rows`
};

/** @brief Rows `first` to before `end` become dirty. */
struct MarkRangeArguments {
  DirtyView dirty;
  std::uint64_t first = 0, end = 0;
};

/**
 * @brief Takes dirty rows, at most as many as `rows` holds: ascending, from where the last time
 *        ended; from the beginning again when that was the end.
 */
template <typename Key>
struct CollectRowsArguments {
  ArrayView<Key> rows;               ///< written
  ArrayView<std::uint32_t> count;    ///< written, one: of `rows`
  ArrayView<std::uint32_t> scratch;  ///< `collect_scratch` numbers; host kernel: none
  DirtyView dirty;
};

/** @brief Where the rows of a list are: in their tables, or at the slots of a cache of them. */
template <typename T>
struct RowSources {
  model::RowStorage<const T> home, cached;
  ArrayView<const std::int32_t> slots;  ///< of each row of the list; none: all are in their tables
  ArrayView<const SourceTable> tables;
};

/** @brief Copies rows and their numbers into a slot; those without room are dirty then. */
template <typename T, typename Key>
struct GatherRowsArguments {
  ArrayView<std::byte> slot;  ///< written
  DirtyView dirty;
  RowSources<T> from;
  ArrayView<const Key> rows;             ///< the list: ascending, counted through the tables
  ArrayView<const std::uint32_t> count;  ///< one: of `rows`
  GatherShape shape;
};

}  // namespace millrace::capture
