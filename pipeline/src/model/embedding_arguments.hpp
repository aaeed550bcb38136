#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/pipeline/kernels/array_view.hpp"
#include "millrace/pipeline/kernels/host_device.hpp"
#include "millrace/pipeline/kernels/row_storage.hpp"
#include "model/lookup.hpp"
#include "model/optimizer_rule.hpp"
#include "model/row_places.hpp"

/// @file
/// The arguments of the kernels of the embeddings. Each kernel has a struct, which the host kernel
/// and the CUDA kernel share. A view without elements means "none".

namespace millrace::model {

/** @brief The bags of a batch, key-major: the bags of feature f begin at f * batch. */
template <typename Offset>
struct BagLayout {
  ArrayView<const Lookup> lookups;  ///< [features]
  ArrayView<const Offset> offsets;  ///< [features * batch + 1]: index of each bag's first id
  std::size_t batch = 0;            ///< number of examples

  [[nodiscard]] MILLRACE_HOST_DEVICE std::size_t count() const { return lookups.size() * batch; }
  [[nodiscard]] MILLRACE_HOST_DEVICE std::size_t begin(std::size_t bag) const {
    return static_cast<std::size_t>(offsets[bag]);
  }
  [[nodiscard]] MILLRACE_HOST_DEVICE std::size_t end(std::size_t bag) const {
    return begin(bag + 1);
  }
  [[nodiscard]] MILLRACE_HOST_DEVICE const Lookup& lookup(std::size_t bag) const {
    return lookups[bag / batch];
  }
};

/** @brief Pooled rows as a part of a wider matrix. */
template <typename T>
struct PooledPart {
  ArrayView<T> values;     ///< the whole matrix, up to the end of this part
  std::size_t stride = 0;  ///< columns of the whole matrix
  std::size_t column = 0;  ///< first column of this part

  /** @brief Returns the pooled row of a feature. */
  [[nodiscard]] MILLRACE_HOST_DEVICE T* row(std::size_t example, const Lookup& lookup) const {
    return values.data() + example * stride + column + static_cast<std::size_t>(lookup.column);
  }
};

/** @brief The weights of tables: in the tables, or at slots of a cache. */
template <typename T>
struct TableWeights {
  ArrayView<const T> home;
  ArrayView<const T> cached;
  ArrayView<const std::int32_t> slots;  ///< for each id; empty: tables are not cached
  std::size_t slot_width = 0;           ///< scalars between slots

  /**
   * @param position  position of the id;  @param at_home  index of its row's first scalar in `home`
   */
  [[nodiscard]] MILLRACE_HOST_DEVICE const T* row(std::size_t position, std::size_t at_home) const {
    if (slots.empty() || slots[position] < 0) return home.data() + at_home;
    return cached.data() + static_cast<std::size_t>(slots[position]) * slot_width;
  }
};

/** @brief Tables that an update changes, and the place of each row. */
template <typename T>
struct UpdatedTables {
  RowStorage<T> home, cached;
  ArrayView<SlotState> states;          ///< states of the cache's slots
  ArrayView<const std::int32_t> slots;  ///< slot of each run's row; empty: tables are not cached
  RowLayout layout;

  [[nodiscard]] MILLRACE_HOST_DEVICE bool at_slot(std::uint32_t run) const {
    return !slots.empty() && slots[run] >= 0;
  }
  /** @param row  row of the run, counted through all tables */
  [[nodiscard]] MILLRACE_HOST_DEVICE RowPointers<T> row(std::uint32_t run, const Lookup& table,
                                                        std::int64_t row) const {
    if (!at_slot(run)) return home.all().at(layout.at_home(table, row));
    return cached.all().at(layout.at_slot(static_cast<std::size_t>(slots[run])));
  }
  /** @brief Marks a row at a slot as newer than the row in its table. */
  MILLRACE_HOST_DEVICE void mark_changed(std::uint32_t run) const {
    if (at_slot(run)) states[static_cast<std::size_t>(slots[run])].dirty = 1;
  }
};

/** @brief The ids of a batch, sorted by row: one run for each row, ascending. */
template <typename Key>
struct SortedIds {
  ArrayView<const Key> rows;              ///< row of each run, counted through all tables
  ArrayView<const std::uint32_t> starts;  ///< start of each run in `positions`, then the end
  ArrayView<const std::uint32_t> count;   ///< one element: number of runs
  /** Positions of ids in the batch, sorted by row; stable. */
  ArrayView<const std::uint32_t> positions;
  ArrayView<const std::uint32_t> bag_of;  ///< bag of each id, by its position
};

/** @brief Pools the rows of every bag. Ids out of range count as rows of zeros. */
template <typename T, typename Id, typename Offset>
struct LookUpArguments {
  PooledPart<T> pooled;  ///< written
  ArrayView<BadId> bad;  ///< one element: the first id out of range, kept across batches
  TableWeights<T> tables;
  BagLayout<Offset> bags;
  ArrayView<const Id> ids;
  ArrayView<const T> factors;  ///< factor of each id; empty: 1
};

/** @brief Computes for each id the gradient of its factor; 0 for ids out of range. */
template <typename T, typename Id, typename Offset>
struct FactorGradientsArguments {
  ArrayView<T> gradients;  ///< written: gradient of each id's factor
  PooledPart<const T> pooled_gradient;
  TableWeights<T> tables;
  BagLayout<Offset> bags;
  ArrayView<const Id> ids;
};

/** @brief Computes for each id its row, counted through all tables, its position and its bag. */
template <typename Key, typename Id, typename Offset>
struct LineariseArguments {
  ArrayView<Key> rows;
  ArrayView<std::uint32_t> positions;
  ArrayView<std::uint32_t> bag_of;
  BagLayout<Offset> bags;
  ArrayView<const Id> ids;
  Key none = 0;  ///< replaces the row of an id out of range; sorts after all rows
};

/** @brief Applies the optimizer once to each row of a batch, with the sum of its gradients. */
template <typename T, typename Key, typename Offset>
struct UpdateRowsArguments {
  UpdatedTables<T> tables;
  PooledPart<const T> gradient;
  BagLayout<Offset> bags;
  ArrayView<const T> factors;  ///< factor of each id; empty: 1
  SortedIds<Key> sorted;
  Rule<T> rule;
};

}  // namespace millrace::model
