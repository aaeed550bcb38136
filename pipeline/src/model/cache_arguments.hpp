#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/pipeline/kernels/array_view.hpp"
#include "millrace/pipeline/model/table_cache.hpp"
#include "model/embedding_arguments.hpp"
#include "model/row_places.hpp"

/// @file
/// The arguments of the kernels of cached tables. Conventions: embedding_arguments.hpp.

namespace millrace::model {

/** @brief Computes for each id a key by which rows sort set by set, and its position. */
template <typename Key, typename Id, typename Offset>
struct CacheKeysArguments {
  ArrayView<Key> keys;
  ArrayView<std::uint32_t> positions;
  BagLayout<Offset> bags;
  ArrayView<const Id> ids;
  CacheShape shape;
};

/** @brief The row in each slot, and its state. */
struct CacheSlots {
  ArrayView<std::uint32_t> tags;
  ArrayView<SlotState> states;
};

/** @brief The rows that a batch needs: each once, set by set. */
template <typename Key>
struct WantedRows {
  ArrayView<const Key> keys;             ///< ascending (CacheShape::key_of)
  ArrayView<const std::uint32_t> count;  ///< one element: size of `keys`
};

/** @brief Marks the rows of a batch that are in the cache as used, and brings the other rows. */
template <typename T, typename Key>
struct BringRowsArguments {
  RowStorage<T> cached, home;
  CacheSlots slots;
  ArrayView<CacheCounts> counts;  ///< one element
  ArrayView<RowMove> moves;       ///< [keys]: written
  ArrayView<const Lookup> lookups;
  WantedRows<Key> wanted;
  CacheShape shape;
  RowLayout layout;
  Turn turn;
};

/** @brief Finds for each id the current slot of its row. */
template <typename Id, typename Offset>
struct LocateIdsArguments {
  ArrayView<std::int32_t> slots;  ///< written
  ArrayView<const std::uint32_t> tags;
  BagLayout<Offset> bags;
  ArrayView<const Id> ids;
  CacheShape shape;
};

/** @brief Finds for each row its current slot. */
template <typename Key>
struct LocateRowsArguments {
  ArrayView<std::int32_t> slots;  ///< written
  ArrayView<const std::uint32_t> tags;
  ArrayView<const Key> rows;             ///< row numbers, counted through all tables
  ArrayView<const std::uint32_t> count;  ///< one element: size of `rows`
  CacheShape shape;
};

/** @brief Writes back changed rows, and leaves every slot empty. */
template <typename T>
struct EmptySlotsArguments {
  RowStorage<T> home;
  RowStorage<const T> cached;
  CacheSlots slots;
  ArrayView<const Lookup> lookups;
  CacheShape shape;
  RowLayout layout;
};

}  // namespace millrace::model
